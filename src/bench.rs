//! What `cargo bench` measures: from the variables `MOEBIUS_BENCH_*` to groups of cases for a benchmark runner.
//!
//! | variable | default | value |
//! |---|---|---|
//! | `MODEL` | `glm-5` | model presets |
//! | `SHAPE` | | a free shape `H,I,E,K` in place of a model |
//! | `TP` | 8 for the default model, else 1 | tensor parallelisms |
//! | `EP` | 1 | expert parallelisms; the rank with most rows is measured |
//! | `BATCH` | 1,16,64,512 on a GPU, 1,8,64 on the processor | batch sizes; doubling ranges such as `1..64` |
//! | `STAGE` | `gemm1,gemm2` | stages |
//! | `EXPERTS`, `TOP_K` | the model's | numbers to try in place of the model's |
//! | `ROUTING` | `uniform` | as `moebius run --routing` |
//! | `KERNEL` | all | globs of kernel ids |
//! | `DEVICE` | the first GPU with kernels, else `cpu` | the device |
//! | `ALL` | 0 | 1 lifts the limit of [`MOST_FUNCTIONS`] |
//!
//! All but `SHAPE`, `ROUTING`, `DEVICE` and `ALL` are lists with commas; an empty value counts as none.

mod device;
mod limit;
mod variables;

pub use limit::MOST_FUNCTIONS;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::rc::Rc;

use crate::analyse::work;
use crate::kernel::{Kernel, Scheme};
use crate::measure::{BenchCase, BenchGroup, BenchThroughput, NamedSubject, OpenCase};
use crate::shape::Case;
use device::{Bench, Open};
use limit::Planned;
use variables::{Asked, PREFIX};

/// The groups that `variables` (of the environment; those without the prefix `MOEBIUS_BENCH_` are passed over) ask for:
/// one for each combination of model, parallelism, experts, experts per token, stage and scheme, with a case for each
/// batch: kernels of different schemes compute different things and do not compete.
/// Nothing is loaded before a case is opened. `note` is told in one sentence of everything that is left out.
///
/// # Errors
/// One sentence that names the variable whose value cannot be used, or says that no kernel can compute any case.
pub fn groups(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    note: &mut dyn FnMut(&str),
) -> Result<Vec<BenchGroup>, String> {
    let asked = Asked::read(variables)?;
    let Bench { kernels, settings, batches, open } = device::bench(asked.device.as_deref())?;
    let wanted = asked.kernels.select(kernels).map_err(|reason| format!("{PREFIX}KERNEL: {reason}"))?;
    let kernels: Vec<Rc<Box<dyn Kernel>>> = wanted.into_iter().map(Rc::new).collect();
    let mut planned = computable(asked.cases(batches)?, &kernels, note)?;
    if !asked.all {
        let infos: Vec<_> = kernels.iter().map(|kernel| kernel.info()).collect();
        limit::limit(&mut planned, &infos, note);
    }
    let groups = planned.chunk_by(|a, b| a.label() == b.label()).filter_map(|members| {
        let label = members.first()?.label();
        let cases = members.iter().map(|planned| bench_case(planned, &kernels, &open)).collect();
        Some(BenchGroup { label, settings: settings.clone(), cases })
    });
    Ok(groups.collect())
}

/// Everything of a case but its batch. The name of the model tells of other experts and experts per token.
fn label(case: &Case) -> String {
    let ep = if case.ep > 1 { format!(" ep{}", case.ep) } else { String::new() };
    format!("{} tp{}{ep} {} {}", case.model, case.tp, case.stage, case.routing)
}

impl Planned {
    /// What its group is called.
    fn label(&self) -> String {
        format!("{} {}", label(&self.case), self.scheme)
    }
}

/// The cases, each with the kernels that can compute it.
fn computable(
    cases: Vec<Case>,
    kernels: &[Rc<Box<dyn Kernel>>],
    note: &mut dyn FnMut(&str),
) -> Result<Vec<Planned>, String> {
    let mut planned = Vec::new();
    let mut first_refusal = None;
    for case in cases {
        let mut able: BTreeMap<Scheme, Vec<usize>> = BTreeMap::new();
        for (at, kernel) in kernels.iter().enumerate() {
            match case.unsupported().map(str::to_owned).or_else(|| kernel.supports(&case).err()) {
                None => able.entry(kernel.info().scheme).or_default().push(at),
                Some(reason) => {
                    note(&format!("{} batch {}: {} is left out: {reason}", label(&case), case.batch, kernel.info().id));
                    first_refusal.get_or_insert(reason);
                }
            }
        }
        planned.extend(able.into_iter().map(|(scheme, kernels)| Planned { case: case.clone(), scheme, kernels }));
    }
    // The cases of a group side by side; a stable sort keeps the order in which they were asked for.
    let mut order: Vec<String> = Vec::new();
    for label in planned.iter().map(Planned::label) {
        if !order.contains(&label) {
            order.push(label);
        }
    }
    planned.sort_by_key(|planned| order.iter().position(|label| *label == planned.label()));
    match first_refusal {
        Some(reason) if planned.is_empty() => Err(format!("no kernel can compute any of the cases: {reason}")),
        _ => Ok(planned),
    }
}

fn bench_case(planned: &Planned, kernels: &[Rc<Box<dyn Kernel>>], open: &Open) -> BenchCase {
    let members: Vec<_> = planned.kernels.iter().filter_map(|&at| kernels.get(at).cloned()).collect();
    BenchCase {
        parameter: planned.case.batch.to_string(),
        throughput: throughput(&planned.case, planned.scheme),
        kernels: members.iter().map(|kernel| kernel.info().id.to_string()).collect(),
        open: opener(planned.case.clone(), members, open.clone()),
    }
}

/// What a call moves at least and computes.
fn throughput(case: &Case, scheme: Scheme) -> BenchThroughput {
    let bytes = work(case, scheme).map(|work| work.weight_bytes + work.activation_bytes + work.write_bytes);
    BenchThroughput { bytes: bytes.unwrap_or_default(), flops: case.useful_flops() }
}

fn opener(case: Case, kernels: Vec<Rc<Box<dyn Kernel>>>, open: Open) -> OpenCase {
    Box::new(move |names| {
        let id = |kernel: &Rc<Box<dyn Kernel>>| kernel.info().id.to_string();
        let wanted: Vec<_> = kernels.iter().filter(|kernel| names.contains(&id(kernel))).cloned().collect();
        let subjects = open(&case, &wanted)?;
        let named = |(kernel, subject)| NamedSubject { name: id(kernel), subject };
        Ok(wanted.iter().zip(subjects).map(named).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(variables: &[(&str, &str)]) -> (Result<Vec<BenchGroup>, String>, Vec<String>) {
        let mut notes = Vec::new();
        let variables = [("DEVICE", "cpu")]
            .iter()
            .chain(variables)
            .map(|(name, value)| (format!("{PREFIX}{name}").into(), (*value).into()));
        let groups = groups(variables, &mut |note| notes.push(note.to_owned()));
        (groups, notes)
    }

    fn ids(groups: &[BenchGroup]) -> Vec<String> {
        let of_case = |label: &str, case: &BenchCase| -> Vec<String> {
            case.kernels.iter().map(|kernel| format!("{label}/{kernel}/{}", case.parameter)).collect()
        };
        groups.iter().flat_map(|g| g.cases.iter().flat_map(|case| of_case(&g.label, case))).collect()
    }

    #[test]
    fn by_default_both_stages_of_glm_5_at_three_batches() {
        let (groups, notes) = made(&[]);
        let groups = groups.unwrap();
        let labels: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
        let schemes = ["nvfp4-w4a4", "nvfp4-w4a16"];
        let expected: Vec<String> = ["gemm1", "gemm2"]
            .iter()
            .flat_map(|stage| schemes.map(|scheme| format!("glm-5 tp8 {stage} uniform {scheme}")))
            .collect();
        assert_eq!(labels, expected);
        let batches: Vec<&str> = groups[0].cases.iter().map(|case| case.parameter.as_str()).collect();
        assert_eq!(batches, ["1", "8", "64"]);
        assert!(notes.is_empty(), "{notes:?}");
        // One token visits 8 experts of 512 columns and 6144 rows of 4-bit weights.
        let Some(case) = groups[0].cases.first() else { panic!("no case") };
        assert_eq!(case.throughput.flops, 2 * 8 * 512 * 6144);
        assert!(case.throughput.bytes > 8 * 512 * 6144 / 2 && case.throughput.bytes < 8 * 512 * 6144);
    }

    #[test]
    fn every_combination_is_a_group_of_its_own() {
        let axes = [
            ("MODEL", "glm-5,GLM-5"),
            ("TP", "4,8"),
            ("EP", "2"),
            ("EXPERTS", "64,256"),
            ("TOP_K", "4,8"),
            ("BATCH", "2,4"),
        ];
        let groups = made(&axes).0.unwrap();
        let mut labels: Vec<&str> = groups.iter().map(|group| group.label.as_str()).collect();
        assert_eq!(labels.len(), 2 * 2 * 2 * 2 * 2);
        assert!(labels.contains(&"glm-5 experts 64 top-k 4 tp4 ep2 gemm2 uniform nvfp4-w4a16"), "{labels:?}");
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), groups.len());
    }

    #[test]
    fn too_many_functions_are_thinned_unless_all_are_asked_for() {
        let many = [("SHAPE", "64,64,16,2"), ("BATCH", "1..1024"), ("EXPERTS", "4,8,16")];
        let (groups, notes) = made(&many);
        let count = ids(&groups.unwrap()).len();
        assert!(count <= MOST_FUNCTIONS && count > MOST_FUNCTIONS / 2, "{count}");
        assert!(notes.iter().any(|note| note.contains("MOEBIUS_BENCH_ALL=1")), "{notes:?}");
        let (groups, notes) = made(&[many[0], many[1], many[2], ("ALL", "1")]);
        let all = ids(&groups.unwrap());
        assert_eq!(all.len(), 3 * 2 * 11 * crate::kernel::cpu_kernels().len());
        assert!(notes.is_empty(), "{notes:?}");
    }

    #[test]
    fn what_no_kernel_computes_is_left_out_and_said() {
        let (groups, notes) = made(&[("SHAPE", "64,24,4,2"), ("BATCH", "1")]);
        let groups = groups.unwrap();
        assert!(groups.iter().all(|group| group.label.contains("gemm1")) && !groups.is_empty());
        assert!(notes.iter().all(|note| note.contains("gemm2") && note.contains("K 24")) && !notes.is_empty());
        let refusal = made(&[("SHAPE", "64,24,4,2"), ("STAGE", "gemm2")]).0.err().unwrap();
        assert!(refusal.starts_with("no kernel can compute any of the cases: K 24"), "{refusal}");
    }

    #[test]
    fn an_opened_case_gives_the_named_kernels_timed_and_verified() {
        let mut groups = made(&[("SHAPE", "64,64,4,2"), ("BATCH", "4"), ("STAGE", "gemm2")]).0.unwrap();
        let case = &mut groups[0].cases[0];
        let wanted: Vec<String> = case.kernels.iter().skip(1).cloned().collect();
        let mut opened = (case.open)(&wanted).unwrap();
        let names: Vec<&str> = opened.iter().map(|opened| opened.name.as_str()).collect();
        assert_eq!(names, wanted);
        for NamedSubject { name, subject } in &mut opened {
            let sample = subject.as_mut().unwrap_or_else(|e| panic!("{name}: {e}")).sample().unwrap();
            assert!(sample.ns_per_call > 0.0, "{name}");
        }
    }
}
