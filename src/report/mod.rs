//! What people see of results: tables, Markdown, CSV, a page. Reads records only.

mod columns;
mod table;
mod words;

pub use table::{TableOptions, table};
