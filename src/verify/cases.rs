//! The correctness set: small cases at the edges where kernels go wrong.

use crate::shape::{Case, GemmShape, Stage};

/// Row counts around the edges of tiles of 8 to 256 rows.
const EDGES: [u32; 19] = [1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257];

/// The correctness set, for any kernel and device: one token, empty experts, one expert with everything, rows around tile
/// edges, N and K that are no multiples of tiles, 1 to 256 experts, deep and shallow reductions. All of it is about a
/// third of a billion multiplications.
///
/// Kernels refuse what they do not support; every scheme's scales fit K in all cases but the one with K = 48, which is no
/// multiple of 32.
pub fn correctness_cases() -> Vec<Case> {
    let mut cases = vec![
        case("one token, one expert", 128, 128, vec![1]),
        case("one token, 8 of 256 experts", 64, 256, spread(256, 8)),
        case("rows around tile edges", 128, 256, EDGES.into_iter().flat_map(|rows| [rows, 0]).collect()),
        case("everything to one expert", 192, 512, vec![0, 0, 0, 300, 0, 0, 0, 0]),
        case("one expert with many rows, others with one", 128, 384, vec![1, 1, 260, 1, 0, 1, 1, 1]),
        case("two rows for each of 256 experts", 32, 128, vec![2; 256]),
        case("last expert alone", 256, 256, [vec![0; 127], vec![5]].concat()),
        case("three experts", 96, 320, vec![3, 0, 70]),
        case("deep", 64, 6144, vec![1, 0, 9, 33]),
        case("shallow and wide", 1024, 256, vec![1, 17, 0, 3]),
        case("least K", 64, 32, vec![4, 1]),
        case("K of 48", 64, 48, vec![4, 0, 9]),
        case("eight columns", 8, 256, vec![5, 2, 0, 1]),
    ];
    for n in [72, 120, 136, 200, 264] {
        cases.push(case("N no multiple of a tile", n, 256, vec![6, 0, 35, 130]));
    }
    for k in [96, 160, 224, 288, 416, 1056] {
        cases.push(case("K no multiple of a tile", 136, k, vec![6, 0, 35, 130]));
    }
    cases
}

/// One row for `touched` of `experts`, evenly spread.
fn spread(experts: u32, touched: u32) -> Vec<u32> {
    (0..experts).map(|e| u32::from(e % (experts / touched) == 3)).collect()
}

fn case(what: &str, n: u32, k: u32, rows: Vec<u32>) -> Case {
    let words: Vec<String> = rows.iter().map(u32::to_string).collect();
    Case {
        model: format!("check: {what}"),
        tp: 1,
        ep: 1,
        pp: 1,
        ep_rank: 0,
        batch: rows.iter().sum(),
        top_k: 1,
        routing: format!("rows:{}", words.join(",")),
        seed: 1,
        stage: Stage::Gemm1,
        shape: GemmShape { experts: rows.len() as u32, n, k },
        rows,
        moe_layers: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_covers_what_it_says() {
        let cases = correctness_cases();
        for case in &cases {
            assert_eq!(case.rows.len(), case.shape.experts as usize, "{}", case.model);
            assert!(case.shape.k % 16 == 0 && case.total_rows() > 0, "{}", case.model);
        }
        let experts: Vec<u32> = cases.iter().map(|c| c.shape.experts).collect();
        assert!(experts.contains(&1) && experts.contains(&256));
        assert!(EDGES.iter().all(|edge| cases.iter().any(|c| c.rows.contains(edge))));
        assert!(cases.iter().any(|c| c.total_rows() == 1) && cases.iter().any(|c| c.touched_experts() == 8));
        let multiplications: u64 = cases.iter().map(|c| c.useful_flops() / 2).sum();
        assert!(multiplications < 400_000_000, "{multiplications}");
    }
}
