//! Properties that every drawn routing has.

use moebius::shape::{Assignment, Draw, Routing};
use proptest::prelude::*;

fn drawn_kinds() -> impl Strategy<Value = Routing> {
    prop_oneof![
        Just(Routing::Uniform),
        Just(Routing::Balanced),
        Just(Routing::Same),
        (0.01f64..=2.0).prop_map(Routing::PowerLaw),
    ]
}

fn draws() -> impl Strategy<Value = Draw> {
    (1u32..=300, 1u32..=200, any::<u64>())
        .prop_flat_map(|(experts, tokens, seed)| (Just(experts), 1..=experts.min(24), Just(tokens), Just(seed)))
        .prop_map(|(experts, top_k, tokens, seed)| Draw { experts, top_k, tokens, seed })
}

fn assign(routing: &Routing, draw: Draw) -> Assignment {
    routing.assignment(draw).unwrap().unwrap()
}

proptest! {
    #[test]
    fn each_token_visits_k_distinct_experts_and_the_rows_add_up(routing in drawn_kinds(), draw in draws()) {
        let assignment = assign(&routing, draw);
        prop_assert_eq!(assignment.len(), draw.tokens as usize);
        for token in assignment.tokens() {
            let mut ids = token.to_vec();
            ids.sort_unstable();
            ids.dedup();
            prop_assert_eq!(ids.len(), draw.top_k as usize);
            prop_assert!(ids.iter().all(|&id| id < draw.experts));
        }
        let rows = assignment.histogram();
        prop_assert_eq!(rows.len(), draw.experts as usize);
        prop_assert_eq!(rows.iter().sum::<u32>(), draw.tokens * draw.top_k);
        prop_assert!(rows.iter().all(|&r| r <= draw.tokens));
    }

    #[test]
    fn equal_seeds_agree_and_smaller_batches_are_prefixes(routing in drawn_kinds(), draw in draws(), fewer in 1u32..200) {
        let whole = assign(&routing, draw);
        prop_assert_eq!(&whole, &assign(&routing, draw));
        let fewer = fewer.min(draw.tokens);
        let part = assign(&routing, Draw { tokens: fewer, ..draw });
        prop_assert!(part.tokens().eq(whole.tokens().take(fewer as usize)));
    }

    #[test]
    fn words_survive(alpha in 1e-9f64..=2.0, rows in prop::collection::vec(0u32..5, 1..40)) {
        for routing in [Routing::PowerLaw(alpha), Routing::Rows(rows)] {
            prop_assert_eq!(routing.to_string().parse::<Routing>().unwrap(), routing);
        }
    }

    #[test]
    fn any_word_is_read_or_refused_in_one_line(word in "(power-law:|trace:|rows:)?[0-9x,.eE:+-]{0,20}|\\PC{0,30}") {
        if let Err(error) = word.parse::<Routing>() {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}

#[test]
fn balanced_rows_differ_by_at_most_one() {
    for tokens in [1, 7, 64, 513] {
        let rows = assign(&Routing::Balanced, Draw { experts: 96, top_k: 5, tokens, seed: 4 }).histogram();
        assert!(rows.iter().max().unwrap() - rows.iter().min().unwrap() <= 1, "{rows:?}");
    }
}

#[test]
fn all_tokens_of_same_agree() {
    let assignment = assign(&Routing::Same, Draw { experts: 64, top_k: 8, tokens: 100, seed: 1 });
    let mut tokens = assignment.tokens();
    let first = tokens.next().unwrap();
    assert!(tokens.all(|token| token == first));
}

/// The mean of the experts touched against E(1 - (1 - k/E)^T), and that of max/mean against a published simulation, whose
/// own spread is some percent where the maximum is 3 or 4 rows.
#[test]
fn uniform_routing_is_as_even_as_chance_makes_it() {
    const SEEDS: u64 = 500;
    for (tokens, peak) in [(16, 6.40), (64, 3.40), (256, 2.13), (1024, 1.50)] {
        let (mut touched, mut most) = (0, 0);
        for seed in 0..SEEDS {
            let rows = assign(&Routing::Uniform, Draw { experts: 256, top_k: 8, tokens, seed }).histogram();
            touched += rows.iter().filter(|&&r| r > 0).count();
            most += rows.iter().max().unwrap();
        }
        let touched = touched as f64 / SEEDS as f64;
        let expected = 256.0 * (1.0 - (1.0 - 8.0 / 256.0f64).powi(tokens as i32));
        assert!((touched - expected).abs() < 0.5, "{tokens}: {touched} experts, not {expected}");
        let got = f64::from(most) / SEEDS as f64 / (f64::from(tokens) * 8.0 / 256.0);
        assert!((got / peak - 1.0).abs() < 0.05, "{tokens}: max/mean {got}, not {peak}");
    }
}

#[test]
fn impossible_draws_are_refused() {
    let good = Draw { experts: 8, top_k: 2, tokens: 4, seed: 0 };
    for draw in [
        Draw { tokens: 0, ..good },
        Draw { top_k: 0, ..good },
        Draw { top_k: 9, ..good },
        Draw { experts: 0, ..good },
        Draw { experts: u32::MAX, ..good },
        Draw { tokens: u32::MAX, ..good },
        Draw { experts: 4096, top_k: 4096, tokens: u32::MAX, ..good },
    ] {
        for routing in [Routing::Uniform, Routing::Balanced, Routing::Same, Routing::PowerLaw(1.2)] {
            assert!(routing.assignment(draw).is_err(), "{draw:?}");
        }
    }
    assert!(Routing::PowerLaw(f64::NAN).assignment(good).is_err());
    assert_eq!(Routing::Rows(vec![1]).assignment(good).unwrap(), None);
}
