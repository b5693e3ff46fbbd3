//! Interleaved sampling of the subjects of one case, until what matters is known or time is up.

use std::time::Duration;

use super::bootstrap::{Confidence, median, median_interval};
use super::field::{Field, Lane, Look};
use super::verdict::MIN_PAIRS;
use super::{Contender, Drift, Hooks, Progress, Sampling, Settings, Stop};

/// Fewest rounds before racing: six values are the fewest whose range is a 95% interval of the median.
const RACE_ROUNDS: u32 = 6;

/// Rounds between two looks at the verdicts grow by this factor: each look costs time and, as any look at unfinished
/// data, adds to the false calls.
const LOOK_GROWTH: f64 = 1.2;

/// Samples the contenders round after round, each live one once a round in seeded random order.
pub fn sample(contenders: &mut [Contender<'_>], settings: &Settings, hooks: &mut Hooks<'_>) -> Sampling {
    let began = hooks.clock.now();
    let mut field = Field::new(contenders.len(), settings.seed);
    let stop = run(contenders, settings, hooks, &mut field, began);
    let elapsed = hooks.clock.now().saturating_sub(began);
    let rounds = field.lanes.iter().map(|lane| lane.outcome.rounds.len()).max().unwrap_or(0) as u32;
    let summed = |lane: Lane| {
        let mut outcome = lane.outcome;
        outcome.median_ns = median(&outcome.samples_ns);
        outcome.ci95_ns = median_interval(&outcome.samples_ns, Confidence::P95);
        outcome.drift = Drift::of(&outcome.samples_ns);
        outcome
    };
    Sampling { outcomes: field.lanes.into_iter().map(summed).collect(), rounds, elapsed, stop }
}

fn run(
    contenders: &mut [Contender<'_>],
    settings: &Settings,
    hooks: &mut Hooks<'_>,
    field: &mut Field,
    began: Duration,
) -> Stop {
    let budget = settings.time_limit.saturating_mul(contenders.len() as u32);
    for _ in 0..settings.warmup_rounds.max(1) {
        if !field.round(contenders, None, hooks) {
            return Stop::Cancelled;
        }
    }
    let recording = hooks.clock.now();
    // Fewer pairs than verdicts need are not worth a look.
    let mut next_look = settings.min_rounds.max(MIN_PAIRS as u32);
    let mut rounds_needed = f64::from(settings.min_rounds);
    for round in 1..=settings.max_rounds {
        if let Some(monitor) = &mut hooks.monitor {
            monitor.begin_round();
        }
        let number = settings.first_round.saturating_add(round - 1);
        let whole = field.round(contenders, Some(number), hooks);
        if hooks.monitor.as_mut().is_some_and(|monitor| monitor.end_round()) {
            field.mark_throttled(number);
        }
        if !whole {
            return Stop::Cancelled;
        }
        if !settings.exhaustive && round >= settings.sure_rounds.max(RACE_ROUNDS) {
            field.race(contenders);
        }
        if field.live().next().is_none() {
            return Stop::NothingLeft;
        }
        if round >= next_look {
            match field.look(contenders, settings) {
                Look::Settled => return Stop::Settled,
                Look::Open { rounds } => rounds_needed = rounds,
            }
            next_look = (f64::from(round) * LOOK_GROWTH).ceil() as u32;
        }
        let now = hooks.clock.now();
        let elapsed = now.saturating_sub(began);
        if let Some(progress) = &mut hooks.progress {
            let rounds_left = (rounds_needed.min(f64::from(settings.max_rounds)) - f64::from(round)).max(0.0);
            let guess = now.saturating_sub(recording).as_secs_f64() / f64::from(round) * rounds_left;
            let remaining = Duration::try_from_secs_f64(guess).unwrap_or(budget).min(budget.saturating_sub(elapsed));
            progress(&Progress { rounds: round, live: field.live().count(), elapsed, remaining });
        }
        if elapsed >= budget && round >= settings.sure_rounds {
            return Stop::TimeUp;
        }
    }
    Stop::MaxRounds
}
