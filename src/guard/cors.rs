//! Pages of other origins (WHATWG Fetch, §3.2).
