//! Measurement: sampling, intervals, verdicts. Knows no device and no file format, and formats nothing.
//!
//! [`sample`] takes interleaved samples of the subjects of one case; [`judge_paired`] and its kin compare two of them;
//! [`rank`] finds the best and its ties. [`simulate`] measures how often the verdicts are wrong.

mod bootstrap;
mod clock;
mod drift;
mod field;
mod group;
mod hooks;
mod outcome;
mod rng;
mod sampler;
mod settings;
pub mod simulate;
mod subject;
mod verdict;

pub use bootstrap::{Confidence, Interval, median, median_interval};
pub use clock::{Clock, WallClock};
pub use drift::Drift;
pub use group::{BenchCase, BenchGroup, BenchThroughput, NamedSubject, OpenCase};
pub use hooks::{Contender, Hooks, Monitor, Progress};
pub use outcome::{Outcome, Sampling, Stop};
pub use sampler::sample;
pub use settings::Settings;
pub use subject::{Sample, Subject, SubjectError};
pub use verdict::{
    BetweenRuns, Candidate, Judgement, Ranking, Series, Verdict, judge_paired, judge_through, judge_unpaired, rank,
};
