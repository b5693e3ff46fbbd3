//! Verdicts between rows: the statistics of [`crate::measure`] applied to what a file holds.

use crate::measure::{BetweenRuns, Judgement, Series, judge_paired, judge_through, judge_unpaired};
use crate::record::TimeRecord;

/// Judges two rows of one case of one file: round by round where they share rounds; else through a third row that
/// shares rounds with both; else, when no rounds are recorded, sample against sample.
///
/// `others` are the times of the case's other rows. `None` when there are too few samples for any interval, as in
/// somebody else's table.
pub fn judge_rows<'a>(
    first: &TimeRecord,
    second: &TimeRecord,
    others: impl IntoIterator<Item = &'a TimeRecord>,
) -> Option<Judgement> {
    if first.rounds.is_empty() || second.rounds.is_empty() {
        return judge_unpaired(&first.samples_ns, &second.samples_ns, BetweenRuns::default());
    }
    judge_paired(series(first), series(second))
        .or_else(|| others.into_iter().find_map(|anchor| judge_through(series(anchor), series(first), series(second))))
}

/// Judges the same cell of two files, adding what medians wander between runs.
pub fn judge_files(first: &TimeRecord, second: &TimeRecord, between: BetweenRuns) -> Option<Judgement> {
    judge_unpaired(&first.samples_ns, &second.samples_ns, between)
}

fn series(time: &TimeRecord) -> Series<'_> {
    Series { rounds: &time.rounds, ns: &time.samples_ns }
}
