//! Which functions are left out when there are too many.

use super::variables::PREFIX;
use crate::kernel::{KernelInfo, Scheme};
use crate::shape::Case;

/// Most functions of a benchmark, unless all are asked for: each takes about a second.
pub const MOST_FUNCTIONS: usize = 200;

/// A case and the numbers of the kernels to compare on it.
pub(super) struct Planned {
    /// The case.
    pub case: Case,
    /// What the kernels compute.
    pub scheme: Scheme,
    /// Kernels, by their place among all.
    pub kernels: Vec<usize>,
}

/// Leaves out functions until at most [`MOST_FUNCTIONS`] are left: first all but the likely best tile of each family in each
/// case, then the last cases.
pub(super) fn limit(planned: &mut Vec<Planned>, kernels: &[&KernelInfo], note: &mut dyn FnMut(&str)) {
    let all = count(planned);
    if all <= MOST_FUNCTIONS {
        return;
    }
    for Planned { case, kernels: members, .. } in planned.iter_mut() {
        *members = best_tiles(case, members, kernels);
    }
    let thinned = count(planned);
    if thinned < all {
        note(&format!(
            "{} of {all} functions are left out: of each family only the tile that reads least from the caches is kept in a \
             case; {PREFIX}ALL=1 keeps all, {PREFIX}KERNEL chooses",
            all - thinned
        ));
    }
    let cases = planned.len();
    let mut kept = 0;
    let fits = |planned: &Planned| {
        kept += planned.kernels.len();
        kept <= MOST_FUNCTIONS
    };
    let fitting = planned.iter().map(fits).take_while(|&fits| fits).count();
    planned.truncate(fitting);
    if fitting < cases {
        note(&format!(
            "the last {} of {cases} cases are left out, so that at most {MOST_FUNCTIONS} functions run; {PREFIX}ALL=1 keeps \
             all, or ask for fewer with {PREFIX}BATCH or {PREFIX}KERNEL",
            cases - fitting
        ));
    }
}

fn count(planned: &[Planned]) -> usize {
    planned.iter().map(|planned| planned.kernels.len()).sum()
}

/// Of each family among `members` the kernel with the least [`traffic`], the first of several, in the order of `members`.
fn best_tiles(case: &Case, members: &[usize], kernels: &[&KernelInfo]) -> Vec<usize> {
    let mut best: Vec<(String, u128, usize)> = Vec::new();
    for (&at, info) in members.iter().filter_map(|at| Some((at, *kernels.get(*at)?))) {
        let (family, traffic) = (family(info), traffic(case, &info.tile));
        match best.iter_mut().find(|(other, ..)| *other == family) {
            Some(entry) if traffic < entry.1 => (entry.1, entry.2) = (traffic, at),
            Some(_) => {}
            None => best.push((family, traffic, at)),
        }
    }
    let mut kept: Vec<usize> = best.into_iter().map(|(.., at)| at).collect();
    kept.sort_unstable();
    kept
}

/// Kernels that differ in tile and schedule only: the first three parts of the id. A configuration that does not tell of its
/// tile is an idea of its own.
fn family(info: &KernelInfo) -> String {
    let id = info.id.as_str();
    match id.rsplit_once('/') {
        Some((family, configuration)) if configuration.starts_with(&info.tile) => family.to_owned(),
        _ => id.to_owned(),
    }
}

/// Elements of both operands that all tiles of a case read for each step of K. Padding counts, and so does each further
/// reading of the same weights: small tiles win at few rows per expert, large ones at many. The shorter side of a tile is
/// taken for the one over rows. A tile that is not `MxNxK` counts as the worst.
fn traffic(case: &Case, tile: &str) -> u128 {
    let sides: Vec<u32> = tile.split('x').filter_map(|side| side.parse().ok()).filter(|&side| side > 0).collect();
    let &[m, n, _] = sides.as_slice() else { return u128::MAX };
    let (over_rows, over_columns) = (m.min(n), m.max(n));
    let across: u128 = case.rows.iter().map(|rows| u128::from(rows.div_ceil(over_rows))).sum();
    across * u128::from(case.shape.n.div_ceil(over_columns)) * (u128::from(over_rows) + u128::from(over_columns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::KernelId;
    use crate::shape::{CaseSpec, Model, Routing};

    fn kernel(family: &str, configuration: &str, tile: &str) -> KernelInfo {
        KernelInfo {
            id: KernelId::new(family, "sm120", Scheme::Nvfp4W4a16, configuration),
            arch: "sm120".to_owned(),
            scheme: Scheme::Nvfp4W4a16,
            tile: tile.to_owned(),
            needs_host_counts: false,
            version: None,
            image_sha256: None,
        }
    }

    fn case(batch: u32) -> Case {
        let model = Model::free_shape("1024,512,4,1").unwrap();
        let spec = CaseSpec { batches: Some(vec![batch]), routing: Routing::Balanced, ..CaseSpec::new(model) };
        spec.build().unwrap().remove(0)
    }

    #[test]
    fn small_tiles_win_at_few_rows_and_large_ones_at_many() {
        let kernels = [
            kernel("native", "256x8x128", "256x8x128"),
            kernel("native", "128x128x64-coop", "128x128x64"),
            kernel("other", "stream", "8x256x128"),
            kernel("other", "panel", "64x64x64"),
        ];
        let kernels: Vec<&KernelInfo> = kernels.iter().collect();
        let best = |batch: u32| best_tiles(&case(batch), &[0, 1, 2, 3], &kernels);
        assert_eq!(best(4), [0, 2, 3]);
        assert_eq!(best(4096), [1, 2, 3]);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let kernels: Vec<KernelInfo> =
            (1..=70).map(|side| kernel("native", &format!("128x{side}x64"), &format!("128x{side}x64"))).collect();
        let kernels: Vec<&KernelInfo> = kernels.iter().collect();
        let run = |cases: usize, members: usize| {
            let plan = |_| Planned { case: case(8), scheme: Scheme::Nvfp4W4a16, kernels: (0..members).collect() };
            let mut planned: Vec<Planned> = (0..cases).map(plan).collect();
            let mut notes = Vec::new();
            limit(&mut planned, &kernels, &mut |note| notes.push(note.to_owned()));
            (count(&planned), notes)
        };
        assert_eq!(run(2, 70), (140, vec![]));
        let (functions, notes) = run(3, 70);
        assert_eq!(functions, 3);
        assert!(
            matches!(notes.as_slice(), [note] if note.starts_with("207 of 210 functions are left out")),
            "{notes:?}"
        );
        let (functions, notes) = run(201, 1);
        assert_eq!(functions, MOST_FUNCTIONS);
        assert!(matches!(notes.as_slice(), [note] if note.starts_with("the last 1 of 201 cases")), "{notes:?}");
    }
}
