//! What is fuzzed of `shape`: each parser accepts or refuses with one short sentence, and never panics. Each function
//! says whether it accepted.

use std::str::from_utf8;

use moebius::shape::{
    CaseSpec, EpRank, Error, MAX_BATCH, Model, ModelConfig, Parallelism, QuantHint, Routing, Stage, Trace, parse_list,
};

/// Longest sentence: a path, two quoted texts and the words around them.
const LONGEST_SENTENCE: usize = 1200;

fn accepted<T>(result: &Result<T, Error>) -> bool {
    let Err(error) = result else { return true };
    let sentence = error.to_string();
    assert!(!sentence.is_empty() && sentence.len() < LONGEST_SENTENCE, "{} bytes: {sentence}", sentence.len());
    assert!(!sentence.chars().any(char::is_control), "{sentence:?}");
    false
}

/// A `config.json`, and the cases of the model that it describes.
pub fn config(bytes: &[u8]) -> bool {
    let Ok(text) = from_utf8(bytes) else { return false };
    let config = ModelConfig::parse(text, "config.json", "fuzzed");
    if let Ok(config) = &config {
        assert_eq!(config.model.check(), Ok(()));
        for (tp, ep, pp) in [(1, 1, 1), (8, 4, 3)] {
            let parallelism = Parallelism { tp, ep, pp, ep_rank: EpRank::Worst };
            let spec = CaseSpec { parallelism, batches: Some(vec![3]), ..CaseSpec::new(config.model.clone()) };
            accepted(&spec.build());
        }
    }
    accepted(&config)
}

/// An `hf_quant_config.json`.
pub fn quant(bytes: &[u8]) -> bool {
    from_utf8(bytes).is_ok_and(|text| accepted(&QuantHint::parse(text, "hf_quant_config.json")))
}

/// A recorded routing.
pub fn trace(bytes: &[u8]) -> bool {
    let Ok(text) = from_utf8(bytes) else { return false };
    let trace = Trace::parse(text, "trace.txt");
    if let Ok(trace) = &trace {
        assert!(!trace.is_empty() && trace.top_k() > 0);
    }
    accepted(&trace)
}

/// A word of the command line, read in every way that one is.
pub fn word(bytes: &[u8]) -> bool {
    let Ok(text) = from_utf8(bytes) else { return false };
    let (routing, list) = (text.parse::<Routing>(), parse_list("--batch", text, MAX_BATCH));
    if let Ok(routing) = &routing
        && !matches!(routing, Routing::Trace(_))
        && let Ok(model) = Model::free_shape("64,32,8,2")
    {
        assert_eq!(routing.to_string().parse::<Routing>().as_ref(), Ok(routing));
        accepted(&CaseSpec { routing: routing.clone(), ..CaseSpec::new(model) }.build());
    }
    if let Ok(list) = &list {
        assert!(!list.is_empty() && list.iter().all(|n| (1..=MAX_BATCH).contains(n)));
    }
    // A list rather than `||`, so that each is tried.
    [
        accepted(&routing),
        accepted(&list),
        accepted(&Model::free_shape(text)),
        accepted(&Model::preset(text)),
        accepted(&text.parse::<EpRank>()),
        accepted(&text.parse::<Stage>()),
    ]
    .contains(&true)
}
