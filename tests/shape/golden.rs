//! Seeds mean the same routing for ever: recorded draws. If one of these fails, routing changed and every recorded
//! result became incomparable; restore the draw instead of the numbers.

use moebius::shape::{Draw, Routing};

const KINDS: [Routing; 5] =
    [Routing::Uniform, Routing::Balanced, Routing::Same, Routing::PowerLaw(1.01), Routing::PowerLaw(1.0)];

fn ids(routing: &Routing, draw: Draw) -> Vec<u32> {
    routing.assignment(draw).unwrap().unwrap().tokens().flatten().copied().collect()
}

#[test]
fn first_tokens() {
    let draw = Draw { experts: 16, top_k: 4, tokens: 3, seed: 0 };
    let got: Vec<String> = KINDS.iter().map(|kind| format!("{kind} {:?}", ids(kind, draw))).collect();
    assert_eq!(
        got,
        [
            "uniform [6, 7, 9, 13, 9, 13, 12, 1, 3, 15, 13, 9]",
            "balanced [10, 1, 2, 9, 7, 13, 6, 15, 14, 11, 5, 4]",
            "same [10, 15, 9, 14, 10, 15, 9, 14, 10, 15, 9, 14]",
            "power-law:1.01 [8, 7, 0, 15, 15, 7, 9, 0, 0, 9, 3, 7]",
            "power-law:1 [8, 7, 0, 15, 15, 7, 9, 0, 0, 9, 3, 7]",
        ]
    );
}

/// FNV-1a of 512 tokens at the shapes of GLM-5.
#[test]
fn whole_batches() {
    let draw = Draw { experts: 256, top_k: 8, tokens: 512, seed: 0xDEAD_BEEF };
    let hash = |kind: &Routing| {
        ids(kind, draw)
            .iter()
            .flat_map(|id| id.to_le_bytes())
            .fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
    };
    let got: Vec<String> = KINDS.iter().map(|kind| format!("{kind} {:016x}", hash(kind))).collect();
    assert_eq!(
        got,
        [
            "uniform c77ad6325b781658",
            "balanced 47b6bcf4a89bfd25",
            "same e11ef5b0654e0325",
            "power-law:1.01 62cf9efec9980d0c",
            "power-law:1 89c85ce5860fd505",
        ]
    );
}
