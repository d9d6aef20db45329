//! Decodes the protobuf encoding of OTLP from the wire format by field numbers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Metric, Point, PointValue, Span};

#[derive(Clone, Debug)]
enum Field<'a> {
    Varint(u64),
    Fixed([u8; 8]),
    Bytes(&'a [u8]),
}

/// The fields of one message in their order.
#[derive(Debug)]
struct Message<'a>(Vec<(u64, Field<'a>)>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (first, rest) = bytes.split_first().expect("another byte of a varint");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        shift += 7;
        if first & 0x80 == 0 {
            return value;
        }
    }
}

impl<'a> Message<'a> {
    /// Reads a message. Panics if it has a field that is not in `known`.
    fn read(mut bytes: &'a [u8], known: &[u64]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            assert!(known.contains(&(tag >> 3)), "field {} is not one of {known:?}", tag >> 3);
            let field = match tag & 7 {
                0 => Field::Varint(varint(&mut bytes)),
                1 => {
                    let (value, rest) = bytes.split_first_chunk().expect("eight bytes");
                    bytes = rest;
                    Field::Fixed(*value)
                }
                2 => {
                    let length = usize::try_from(varint(&mut bytes)).unwrap();
                    let (value, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(value)
                }
                other => panic!("wire type {other}"),
            };
            fields.push((tag >> 3, field));
        }
        Self(fields)
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &Field<'a>> {
        self.0.iter().filter(move |(found, _)| *found == number).map(|(_, field)| field)
    }

    fn one(&self, number: u64) -> Option<&Field<'a>> {
        let mut all = self.all(number);
        let first = all.next();
        assert!(all.next().is_none(), "field {number} twice");
        first
    }

    fn messages(&self, number: u64) -> Vec<&'a [u8]> {
        self.all(number)
            .map(|field| if let Field::Bytes(bytes) = field { *bytes } else { panic!("{field:?}") })
            .collect()
    }

    fn bytes(&self, number: u64) -> &'a [u8] {
        match self.one(number) {
            Some(Field::Bytes(bytes)) => bytes,
            None => &[],
            Some(other) => panic!("{other:?}"),
        }
    }

    fn text(&self, number: u64) -> String {
        String::from_utf8(self.bytes(number).to_vec()).unwrap()
    }

    fn number(&self, number: u64) -> u64 {
        match self.one(number) {
            Some(Field::Varint(value)) => *value,
            None => 0,
            Some(other) => panic!("{other:?}"),
        }
    }

    fn fixed(&self, number: u64) -> Option<[u8; 8]> {
        match self.one(number) {
            Some(Field::Fixed(bytes)) => Some(*bytes),
            None => None,
            Some(other) => panic!("{other:?}"),
        }
    }

    fn long(&self, number: u64) -> u64 {
        self.fixed(number).map_or(0, u64::from_le_bytes)
    }

    /// Reads packed numbers of eight bytes each.
    fn packed<T>(&self, number: u64, read: fn([u8; 8]) -> T) -> Vec<T> {
        self.bytes(number).chunks_exact(8).map(|chunk| read(chunk.try_into().unwrap())).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(pairs: &[&[u8]]) -> BTreeMap<String, Value> {
    let read = |pair: &&[u8]| {
        let pair = Message::read(pair, &[1, 2]);
        let value = Message::read(pair.bytes(2), &[1, 2, 3]);
        assert_eq!(value.0.len(), 1, "{}", pair.text(1));
        let value = match (value.0[0].0, &value.0[0].1) {
            (1, Field::Bytes(text)) => json!(std::str::from_utf8(text).unwrap()),
            (2, Field::Varint(flag)) => json!(*flag == 1),
            (3, Field::Varint(number)) => json!(number.cast_signed()),
            other => panic!("{other:?}"),
        };
        (pair.text(1), value)
    };
    pairs.iter().map(read).collect()
}

/// Returns the spans or metrics inside the resource and scope layers. Checks the names of resource and scope.
fn records(body: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for of_resource in Message::read(body, &[1]).messages(1) {
        let of_resource = Message::read(of_resource, &[1, 2]);
        let resource = attributes(&Message::read(of_resource.bytes(1), &[1]).messages(1));
        assert_eq!(resource["service.name"], "holdpoint", "{resource:?}");
        for of_scope in of_resource.messages(2) {
            let of_scope = Message::read(of_scope, &[1, 2]);
            assert_eq!(Message::read(of_scope.bytes(1), &[1, 2]).text(1), "holdpoint");
            found.extend(of_scope.messages(2).into_iter().map(<[u8]>::to_vec));
        }
    }
    found
}

pub(super) fn spans(body: &[u8]) -> Vec<Span> {
    let read = |bytes: &Vec<u8>| {
        let span = Message::read(bytes, &[1, 2, 4, 5, 6, 7, 8, 9, 13, 15]);
        let link = |bytes: &[u8]| {
            let link = Message::read(bytes, &[1, 2]);
            (hex(link.bytes(1)), hex(link.bytes(2)))
        };
        let status = span.one(15).map(|_| Message::read(span.bytes(15), &[2, 3]));
        Span {
            trace: hex(span.bytes(1)),
            id: hex(span.bytes(2)),
            parent: hex(span.bytes(4)),
            name: span.text(5),
            kind: span.number(6),
            start: span.long(7),
            end: span.long(8),
            attributes: attributes(&span.messages(9)),
            links: span.messages(13).into_iter().map(link).collect(),
            status: status.map(|status| (status.number(3), status.text(2))),
        }
    };
    records(body).iter().map(read).collect()
}

pub(super) fn metrics(body: &[u8]) -> BTreeMap<String, Metric> {
    let read = |bytes: &Vec<u8>| {
        let metric = Message::read(bytes, &[1, 2, 3, 7, 9]);
        let (sum, histogram) = (metric.one(7).is_some(), metric.one(9).is_some());
        assert!(sum != histogram, "one kind of data");
        assert!(!metric.text(2).is_empty(), "a description");
        let data = Message::read(metric.bytes(if sum { 7 } else { 9 }), &[1, 2, 3]);
        let points = data
            .messages(1)
            .into_iter()
            .map(|bytes| if sum { sum_point(bytes) } else { histogram_point(bytes) });
        let decoded = Metric {
            unit: metric.text(3),
            temporality: data.number(2),
            monotonic: data.number(3) == 1,
            points: points.collect(),
        };
        (metric.text(1), decoded)
    };
    records(body).iter().map(read).collect()
}

fn sum_point(bytes: &[u8]) -> Point {
    let point = Message::read(bytes, &[2, 3, 6, 7]);
    let value = point.fixed(6).map(i64::from_le_bytes).expect("a point has a value, even if it is 0");
    Point {
        attributes: attributes(&point.messages(7)),
        start: point.long(2),
        time: point.long(3),
        value: PointValue::Sum(value),
    }
}

fn histogram_point(bytes: &[u8]) -> Point {
    let point = Message::read(bytes, &[2, 3, 4, 5, 6, 7, 9]);
    Point {
        attributes: attributes(&point.messages(9)),
        start: point.long(2),
        time: point.long(3),
        value: PointValue::Histogram {
            count: point.long(4),
            sum: point.fixed(5).map(f64::from_le_bytes).expect("a sum"),
            buckets: point.packed(6, u64::from_le_bytes),
            bounds: point.packed(7, f64::from_le_bytes),
        },
    }
}
