//! JSON Schemas of the types with a hand-written form on the wire.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{NodeId, RunId, StrictValue, TenantId, WorkflowId};

macro_rules! text_schema {
    ($($name:ident)*) => {$(
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string"})
            }
        }
    )*};
}

text_schema!(NodeId RunId TenantId WorkflowId);

impl JsonSchema for StrictValue {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "StrictValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}
