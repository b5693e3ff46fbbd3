//! How often verdicts are wrong, under noise that measurements have: a table, and limits on it.
//!
//! `cargo test --release --test measure_rates -- --nocapture` prints the table; `MOEBIUS_SIMULATIONS=1000` makes it
//! that many comparisons a line.

use moebius::measure::Settings;
use moebius::measure::simulate::{Experiment, Model, Noise, Rates, Wander, coverage, simulate};

/// Comparisons a line when nothing is asked for: enough to see a broken rule, and quick.
const FEW: u32 = 20;

fn comparisons() -> u32 {
    std::env::var("MOEBIUS_SIMULATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(FEW)
}

/// Noise of each sample by itself.
fn plain(sd: f64) -> Model {
    Model { sd, ..Model::default() }
}

/// A clock that wanders by 1% for all, an offset that wanders for each, and some samples that take up to half as long
/// again.
fn lifelike(sd: f64) -> Model {
    Model {
        shared: Wander { sd: 0.01, rho: 0.95 },
        own: Wander { sd: 0.3 * sd, rho: 0.9 },
        outliers: 0.02,
        outlier_factor: 1.5,
        ..plain(sd)
    }
}

fn compare(name: &str, noise: Model, ratio: f64) -> Rates {
    let rates = simulate(&Experiment {
        noise: Noise::Model(noise),
        base_ns: 40_000.0,
        ratio,
        calls: 24,
        settings: Settings::gpu(11),
        comparisons: comparisons(),
    });
    println!(
        "{name:22} x{ratio:<4}  faster {:5.1}%  slower {:5.1}%  same {:5.1}%  uncertain {:5.1}%  rounds: half within {}, \
         95% within {}",
        100.0 * rates.share(rates.faster),
        100.0 * rates.share(rates.slower),
        100.0 * rates.share(rates.same),
        100.0 * rates.share(rates.uncertain),
        rates.rounds_within(0.5),
        rates.rounds_within(0.95),
    );
    rates
}

#[test]
fn false_and_missed_calls_stay_within_the_contract() {
    let noises = [
        ("plain 0.3%", plain(0.003)),
        ("plain 1%", plain(0.01)),
        ("lifelike 0.3%", lifelike(0.003)),
        ("lifelike 1%", lifelike(0.01)),
        ("timer steps of 2%", Model { tick_ns: 800.0, ..plain(0.01) }),
        ("outliers 20% x 1.3", Model { outliers: 0.2, outlier_factor: 1.3, ..plain(0.005) }),
    ];
    for (name, noise) in noises {
        let same = compare(name, noise, 1.0);
        assert!(same.share(same.faster + same.slower) <= 0.01, "{name}: A/A is called {same:?}");
        for ratio in [1.02, 1.05] {
            let planted = compare(name, noise, ratio);
            assert!(planted.share(planted.slower) >= 0.95, "{name}: {ratio} is missed, {planted:?}");
            assert_eq!(planted.faster, 0);
        }
    }
}

#[test]
fn noise_of_three_percent_needs_more_rounds_but_no_other_rule() {
    let noise = plain(0.03);
    let same = compare("plain 3%", noise, 1.0);
    assert!(same.share(same.faster + same.slower) <= 0.01, "{same:?}");
    let planted = compare("plain 3%", noise, 1.05);
    assert!(planted.share(planted.slower) >= 0.95, "{planted:?}");
    // Half a second per subject buys 2% only at the quieter end: what is not called is uncertain, never wrong.
    let small = compare("plain 3%", noise, 1.02);
    assert_eq!((small.faster, small.same), (0, 0));
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let samplings = comparisons() * 10;
    for (name, noise) in [
        ("plain 1%", plain(0.01)),
        ("own wander", Model { own: Wander { sd: 0.007, rho: 0.5 }, ..plain(0.007) }),
        ("outliers 5% x 3", Model { outliers: 0.05, outlier_factor: 3.0, ..plain(0.01) }),
    ] {
        for rounds in [12, 20, 40, 100] {
            let found = coverage(noise, 10_000.0, rounds, samplings, 3);
            println!(
                "{name:16} {rounds:3} rounds: ratio misses {:.2}% of 0.4%, median {:.1}% of 5%",
                100.0 * (1.0 - found.ratio),
                100.0 * (1.0 - found.median)
            );
            // Chance alone moves 5% of 200 by 1.5%; twelve correlated rounds do not show how correlated they are.
            let allowed = if rounds < 20 { (0.03, 0.13) } else { (0.015, 0.1) };
            assert!(1.0 - found.ratio <= allowed.0 && 1.0 - found.median <= allowed.1, "{name} {rounds}: {found:?}");
        }
    }
}

#[test]
fn measured_noise_can_be_replayed() {
    // Two kernels of one case as a sampling would have recorded them: a common clock and noise of their own.
    let times = |offset: f64| -> Vec<f64> {
        (0..150u32)
            .map(|i| {
                let clock = 1.0 + 0.02 * (f64::from(i) / 9.0).sin();
                let own = 0.004 * ((f64::from(i) * 12.9898 + offset).sin() * 43_758.547).fract();
                offset * clock * (1.0 + own)
            })
            .collect()
    };
    let noise = Noise::Measured(vec![times(9_000.0), times(14_000.0)]);
    for (ratio, wanted) in [(1.0, [0, 0]), (1.02, [0, 1])] {
        let rates = simulate(&Experiment {
            noise: noise.clone(),
            base_ns: 40_000.0,
            ratio,
            calls: 24,
            settings: Settings::gpu(1),
            comparisons: FEW,
        });
        assert_eq!([rates.faster, rates.slower], wanted.map(|share| share * FEW), "{ratio}: {rates:?}");
    }
}
