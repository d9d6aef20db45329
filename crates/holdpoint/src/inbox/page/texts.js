//! All texts of the page, in one object. A translation replaces the files in `texts/`.

import { form } from "./texts/form.js";
import { graph } from "./texts/graph.js";
import { list } from "./texts/list.js";
import { shell } from "./texts/shell.js";
import { show } from "./texts/show.js";

export const texts = { form, graph, list, shell, show };
