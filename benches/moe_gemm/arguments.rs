//! What of criterion's command line must be known before it runs: which functions it will ask for, and in which mode.
//!
//! Criterion keeps both to itself, but the samples of a case are taken together, before its first function.

use std::time::Duration;

use regex::Regex;

/// Criterion's options that take a value, which is therefore not the filter.
const WITH_VALUE: [&str; 18] = [
    "-c",
    "--color",
    "-s",
    "--save-baseline",
    "-b",
    "--baseline",
    "--baseline-lenient",
    "--load-baseline",
    "--format",
    "--output-format",
    "--profile-time",
    "--sample-size",
    "--warm-up-time",
    "--measurement-time",
    "--nresamples",
    "--noise-threshold",
    "--confidence-level",
    "--significance-level",
];

/// How the functions are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Samples are taken interleaved first and then served.
    Recorded,
    /// Criterion calls the kernels itself, one function after another: for `--test`, `--profile-time` and `--quick`,
    /// which count on work being done.
    Live,
    /// No kernel runs: `--list`, and `--load-baseline`, which compares two saved runs.
    Nothing,
}

/// What was asked for.
pub struct Arguments {
    /// How the functions are run.
    pub mode: Mode,
    /// `--measurement-time`: time per function, in place of the group's own.
    pub time_per_function: Option<Duration>,
    filter: Filter,
}

enum Filter {
    All,
    None,
    Exact(String),
    Matching(Regex),
}

impl Arguments {
    /// Reads the arguments after the program's name, as criterion does; a bad filter selects nothing here and stops
    /// criterion with its own message.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Self {
        let (mut words, mut values) = (Vec::new(), Vec::new());
        let mut filter = None;
        let mut rest = arguments.into_iter();
        while let Some(word) = rest.next() {
            if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
                values.push((name.to_owned(), value.to_owned()));
            } else if WITH_VALUE.contains(&word.as_str()) || word == "--plotting-backend" {
                values.push((word, rest.next().unwrap_or_default()));
            } else if word.starts_with('-') {
                words.push(word);
            } else if filter.is_none() {
                filter = Some(word);
            }
        }
        let flag = |name: &str| words.iter().any(|w| w == name);
        let value = |name: &str| values.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let mode = if flag("--list") || (flag("--bench") && value("--load-baseline").is_some()) {
            Mode::Nothing
        } else if !flag("--bench") || flag("--test") || flag("--quick") || value("--profile-time").is_some() {
            Mode::Live
        } else {
            Mode::Recorded
        };
        let seconds = value("--measurement-time").and_then(|v| v.parse().ok());
        let filter = match filter {
            _ if flag("--ignored") => Filter::None,
            None => Filter::All,
            Some(id) if flag("--exact") => Filter::Exact(id),
            Some(pattern) => Regex::new(&pattern).map_or(Filter::None, Filter::Matching),
        };
        let time_per_function = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
        Arguments { mode, time_per_function, filter }
    }

    /// Whether criterion will run the function of this whole id.
    pub fn select(&self, id: &str) -> bool {
        match &self.filter {
            Filter::All => true,
            Filter::None => false,
            Filter::Exact(exact) => id == exact,
            Filter::Matching(regex) => regex.is_match(id),
        }
    }
}
