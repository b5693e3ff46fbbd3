//! The JSON Schema of results files.

use super::file::Results;

/// The JSON Schema of results files, as checked in at `docs/results.schema.json`.
pub fn results_schema() -> schemars::Schema {
    schemars::schema_for!(Results)
}
