//! What people see of results: tables, Markdown, CSV, plots, a page. Reads records only.

mod choice;
mod columns;
mod comparison;
mod csv;
mod markdown;
mod page;
mod plot;
mod table;
mod words;

pub use self::csv::csv;
pub use choice::{choices_markdown, choices_text};
pub use comparison::{comparison_markdown, comparison_text, gate_markdown, gate_text};
pub use markdown::markdown;
pub use page::html;
pub use plot::{Plot, plots};
pub use table::{TableOptions, table};
