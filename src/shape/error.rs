//! What can be wrong with a model, a split, a routing or a list of batches: always something that the user gave.

/// Bad input, as one sentence that names the place, the problem and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No preset has this name.
    #[error("unknown model {name}; {}", nearest_sentence(.nearest))]
    UnknownModel {
        /// What was asked for, quoted.
        name: String,
        /// Presets with similar names, the most similar first.
        nearest: Vec<String>,
    },
    /// A file could not be used as a whole.
    #[error("{path}: {problem}; {remedy}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// One field of a file is missing or wrong.
    #[error("{path}: field `{field}` {problem}; {remedy}")]
    Field {
        /// The file.
        path: String,
        /// The field, with the objects around it: `text_config.num_experts`.
        field: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// A dimension of the model does not divide by the parallelism.
    #[error("{axis} {parts} does not divide the {total} {dimension} of {model}; {}", divisor_sentence(.axis, *.total))]
    Split {
        /// `tp`, `ep` or `pp`.
        axis: &'static str,
        /// Its value.
        parts: u32,
        /// What was to be divided: `experts`, `expert intermediate columns` or `MoE layers`.
        dimension: &'static str,
        /// How many of these there are.
        total: u32,
        /// The model.
        model: String,
    },
    /// A value given on the command line is out of its range.
    #[error("{what} {problem}; {remedy}")]
    Value {
        /// What was given: `--batch 0`, `routing power-law:9`.
        what: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        remedy: String,
    },
}

impl Error {
    pub(crate) fn value(what: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Error::Value { what: what.into(), problem: problem.into(), remedy: remedy.into() }
    }
}

fn nearest_sentence(nearest: &[String]) -> String {
    match nearest {
        [] => "`moebius list models` shows the known ones".into(),
        names => format!("did you mean {}? `moebius list models` shows all", names.join(" or ")),
    }
}

fn divisor_sentence(axis: &str, total: u32) -> String {
    let powers: Vec<String> =
        (0..=6).map(|i| 1u32 << i).filter(|p| total.is_multiple_of(*p)).map(|p| p.to_string()).collect();
    format!("give {axis} {} or another divisor", powers.join(", "))
}

/// A path on one line, without control characters.
pub(crate) fn shown(path: &std::path::Path) -> String {
    path.display()
        .to_string()
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_debug().collect() } else { vec![c] })
        .collect()
}

/// The message of a parser, which may quote what it read, on one line and not long.
pub(crate) fn brief(error: &impl std::fmt::Display) -> String {
    const LONGEST: usize = 160;
    let text = error.to_string();
    let short: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
    if text.chars().nth(LONGEST).is_some() { short + "..." } else { short }
}

/// Foreign text made fit for a sentence: quoted, on one line, without control characters, and not long.
pub(crate) fn quote(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut out: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        out.push_str("...");
    }
    format!("`{out}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_names_its_numbers_and_what_would_do() {
        let error =
            Error::Split { axis: "tp", parts: 3, dimension: "experts", total: 176, model: "glm".into() }.to_string();
        assert_eq!(error, "tp 3 does not divide the 176 experts of glm; give tp 1, 2, 4, 8, 16 or another divisor");
    }

    #[test]
    fn quoted_text_stays_on_one_short_line() {
        assert_eq!(quote("a\nb"), "`a\\nb`");
        assert_eq!(quote(&"x".repeat(200)), format!("`{}...`", "x".repeat(80)));
    }
}
