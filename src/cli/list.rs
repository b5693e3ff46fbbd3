//! `moebius list`

use serde::Serialize;

use super::args::{ListArgs, ListWhat};
use super::error::{CliError, print, print_json};
use crate::device::cuda::{self, DeviceError, GpuInfo};
use crate::kernel::cuda_units::{CompiledUnit, NotBuilt, UnitPlan, built, not_built};
use crate::kernel::{KernelInfo, Selection, cpu_kernels};
use crate::shape::{Model, ModelConfig, ShapeRow, parse_list, shape_rows};

/// Largest parallelism that makes sense on a command line.
const MOST_PARALLEL: u32 = 1 << 12;

/// `moebius list`
///
/// # Errors
/// Bad input.
pub fn list(args: &ListArgs) -> Result<u8, CliError> {
    match &args.what {
        ListWhat::Models { model, model_config, tp, ep, json } => {
            models(model.as_deref(), model_config.as_deref(), tp.as_deref(), ep, *json)
        }
        ListWhat::Kernels { kernel, json } => kernels(kernel, *json),
        ListWhat::Devices { json } => devices(*json),
    }?;
    Ok(0)
}

fn models(
    name: Option<&str>,
    config: Option<&std::path::Path>,
    tp: Option<&str>,
    ep: &str,
    json: bool,
) -> Result<(), CliError> {
    let one = match (name, config) {
        (_, Some(path)) => Some(ModelConfig::read(path).map_err(CliError::input)?),
        (Some(name), None) => {
            let model = Model::preset(name).map_err(CliError::input)?.clone();
            Some(ModelConfig { model, quant: None })
        }
        (None, None) => None,
    };
    let lists = |flag: &str, text: &str| parse_list(flag, text, MOST_PARALLEL).map_err(CliError::input);
    let eps = lists("--ep", ep)?;
    match one {
        None if tp.is_none() => {
            let models = Model::presets();
            if json {
                return print_json(&models);
            }
            let mut table =
                borderless(["model", "hidden", "intermediate", "experts", "top-k", "MoE layers", "checkpoint"]);
            for m in models {
                table.add_row([
                    m.name.clone(),
                    m.hidden.to_string(),
                    m.intermediate.to_string(),
                    m.experts.to_string(),
                    m.top_k.to_string(),
                    m.moe_layers.to_string(),
                    m.id.clone(),
                ]);
            }
            print(&format!("{table}\n"))
        }
        one => {
            let tps = lists("--tp", tp.unwrap_or("1,2,4,8"))?;
            let rows = match &one {
                Some(config) => shape_rows([&config.model], &tps, &eps, &[1]),
                None => shape_rows(Model::presets(), &tps, &eps, &[1]),
            };
            if json {
                return print_json(&rows);
            }
            if let Some(hint) = one.and_then(|config| config.quant) {
                print(&format!(
                    "quantisation: {} (scheme {})\n",
                    hint.format,
                    hint.scheme.unwrap_or("none of moebius")
                ))?;
            }
            print(&format!("{}\n", shapes(&rows)))
        }
    }
}

fn shapes(rows: &[ShapeRow]) -> comfy_table::Table {
    let mut table =
        borderless(["model", "tp", "ep", "experts", "gemm1 N x K", "gemm2 N x K", "layers", "not aligned to"]);
    for row in rows {
        let mut cells = vec![row.model.clone(), row.tp.to_string(), row.ep.to_string()];
        match (&row.per_gpu, row.alignment) {
            (Some(gpu), Some(a)) => {
                let missing: Vec<&str> =
                    [(a.k16, "K 16"), (a.k32, "K 32"), (a.k128, "K 128"), (a.n32, "N 32"), (a.n128, "N 128")]
                        .iter()
                        .filter(|(fits, _)| !fits)
                        .map(|&(_, what)| what)
                        .collect();
                cells.extend([
                    gpu.gemm1.experts.to_string(),
                    format!("{} x {}", gpu.gemm1.n, gpu.gemm1.k),
                    format!("{} x {}", gpu.gemm2.n, gpu.gemm2.k),
                    gpu.moe_layers.to_string(),
                    missing.join(", "),
                ]);
            }
            _ => cells.push(row.refused.clone().unwrap_or_default()),
        }
        table.add_row(cells);
    }
    table
}

/// A kernel as it is listed. Numbers of the compiler are the largest over the kernels of the unit.
#[derive(Serialize)]
struct KernelLine {
    id: String,
    arch: String,
    scheme: String,
    tile: String,
    needs_host_counts: bool,
    built: bool,
    runs_here: bool,
    /// Why it is not built, or cannot run here.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What is known of a kernel for GPUs.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    unit: Option<UnitLine>,
}

/// What kernels.toml and the build say of a kernel for GPUs.
#[derive(Serialize)]
struct UnitLine {
    schedule: Option<&'static str>,
    cluster: [u32; 2],
    swap: bool,
    /// Pipeline depth; none where the kernel has no pipeline, or is not built.
    stages: Option<u32>,
    threads: Option<u32>,
    /// One for each target.
    images: Vec<ImageLine>,
}

/// One image of a kernel.
#[derive(Serialize)]
struct ImageLine {
    target: &'static str,
    /// Dynamic and static, of a block.
    shared_bytes: u32,
    registers: u32,
    spill_bytes: u32,
    image_bytes: u64,
    sha256: &'static str,
}

impl KernelLine {
    fn new(info: &KernelInfo) -> Self {
        KernelLine {
            id: info.id.to_string(),
            arch: info.arch.clone(),
            scheme: info.scheme.to_string(),
            tile: info.tile.clone(),
            needs_host_counts: info.needs_host_counts,
            built: true,
            runs_here: true,
            reason: None,
            unit: None,
        }
    }

    /// A compiled kernel, on the GPUs of this machine.
    fn compiled(info: &KernelInfo, unit: &CompiledUnit, gpus: &Result<Vec<GpuInfo>, DeviceError>) -> Self {
        let footprint = unit.footprint();
        let images = unit.images.iter().map(|image| ImageLine {
            target: image.target,
            shared_bytes: footprint.dynamic_shared + image.static_shared,
            registers: image.registers,
            spill_bytes: image.spill_stores.max(image.spill_loads),
            image_bytes: image.bytes,
            sha256: image.sha256,
        });
        let runs = |gpu: &GpuInfo| unit.image_for(gpu.compute_capability.0, gpu.compute_capability.1).is_some();
        let reason = match gpus {
            Ok(gpus) if gpus.iter().any(runs) => None,
            Ok(gpus) => {
                let targets: Vec<String> = unit.images.iter().map(|image| format!("sm_{}", image.target)).collect();
                let here: Vec<String> = gpus.iter().map(GpuInfo::arch).collect();
                Some(format!("compiled for {}, the GPU here is {}", targets.join(", "), here.join(", ")))
            }
            Err(e) => Some(e.to_string()),
        };
        KernelLine {
            runs_here: reason.is_none(),
            reason,
            unit: Some(UnitLine {
                stages: Some(footprint.stages).filter(|&stages| stages > 0),
                threads: Some(footprint.threads),
                images: images.collect(),
                ..UnitLine::planned(&unit.plan)
            }),
            ..KernelLine::new(info)
        }
    }

    /// A kernel that this build does not have.
    fn not_built(info: &KernelInfo, unit: &NotBuilt) -> Self {
        KernelLine {
            built: false,
            runs_here: false,
            reason: Some(unit.reason.to_owned()),
            unit: Some(UnitLine::planned(&unit.plan)),
            ..KernelLine::new(info)
        }
    }

    /// Rows of the table: one for each image.
    fn cells(&self) -> Vec<[String; 9]> {
        let here = match (self.built, self.runs_here, &self.reason) {
            (false, _, reason) => format!("not built: {}", reason.as_deref().unwrap_or_default()),
            (_, true, _) => "runs here".to_owned(),
            (_, _, reason) => format!("does not run here: {}", reason.as_deref().unwrap_or_default()),
        };
        let row = |stages: String, [shared, registers, spills, image, hash]: [String; 5]| {
            [self.id.clone(), self.scheme.clone(), stages, shared, registers, spills, image, hash, here.clone()]
        };
        let stages = self.unit.as_ref().and_then(|unit| unit.stages).map_or(String::new(), |n| n.to_string());
        let images = self.unit.iter().flat_map(|unit| &unit.images);
        let rows: Vec<_> = images
            .map(|image| {
                let known = [
                    image.shared_bytes.to_string(),
                    image.registers.to_string(),
                    image.spill_bytes.to_string(),
                    format!("sm_{} {} KiB", image.target, image.image_bytes.div_ceil(1024)),
                    image.sha256.chars().take(HASH_DIGITS).collect(),
                ];
                row(stages.clone(), known)
            })
            .collect();
        if rows.is_empty() { vec![row(stages, Default::default())] } else { rows }
    }
}

/// Digits of an image's hash in the table; `--json` has them all.
const HASH_DIGITS: usize = 12;

impl UnitLine {
    /// What kernels.toml says.
    fn planned(plan: &UnitPlan) -> Self {
        UnitLine {
            schedule: plan.schedule,
            cluster: plan.cluster,
            swap: plan.swap,
            stages: None,
            threads: None,
            images: Vec::new(),
        }
    }
}

fn kernels(globs: &[String], json: bool) -> Result<(), CliError> {
    let selection = Selection { kernels: globs.to_vec(), ..Selection::default() };
    let gpus = cuda::gpus();
    let mut lines: Vec<(KernelInfo, KernelLine)> = Vec::new();
    for kernel in cpu_kernels() {
        lines.push((kernel.info().clone(), KernelLine::new(kernel.info())));
    }
    for unit in built() {
        let info = unit.plan.info();
        lines.extend(info.map(|info| (info.clone(), KernelLine::compiled(&info, unit, &gpus))));
    }
    for unit in not_built() {
        let info = unit.plan.info();
        lines.extend(info.map(|info| (info.clone(), KernelLine::not_built(&info, unit))));
    }
    selection.check(&lines.iter().map(|(info, _)| info).collect::<Vec<_>>()).map_err(CliError::input)?;
    let lines: Vec<KernelLine> =
        lines.into_iter().filter(|(info, _)| selection.wants(info)).map(|(_, line)| line).collect();
    if json {
        return print_json(&lines);
    }
    let mut table =
        borderless(["kernel", "scheme", "stages", "shared B", "registers", "spill B", "image", "SHA-256", "here"]);
    for line in &lines {
        for cells in line.cells() {
            table.add_row(cells);
        }
    }
    print(&format!("{table}\n"))
}

fn devices(json: bool) -> Result<(), CliError> {
    let processor = crate::device::cpu::device();
    let gpus = cuda::gpus();
    if json {
        let list: Vec<serde_json::Value> = gpus
            .iter()
            .flatten()
            .map(|gpu| {
                serde_json::json!({
                    "device": format!("cuda:{}", gpu.ordinal), "name": gpu.name, "arch": gpu.arch(), "uuid": gpu.uuid,
                    "multiprocessors": gpu.sm_count, "memory_bytes": gpu.memory_bytes, "l2_bytes": gpu.l2_bytes,
                })
            })
            .collect();
        let reason = gpus.as_ref().err().map(ToString::to_string);
        return print_json(&serde_json::json!({ "cpu": processor, "cuda": list, "no_cuda_because": reason }));
    }
    let mut text = format!(
        "cpu     {}, {} cores, {} GiB, last-level cache {} MiB\n",
        processor.name,
        processor.units,
        processor.memory_bytes >> 30,
        processor.cache_bytes >> 20
    );
    match gpus {
        Ok(gpus) => {
            for gpu in gpus {
                text += &format!(
                    "cuda:{}  {}, {}, {} multiprocessors, {} GiB, L2 {} MiB\n",
                    gpu.ordinal,
                    gpu.name,
                    gpu.arch(),
                    gpu.sm_count,
                    gpu.memory_bytes >> 30,
                    gpu.l2_bytes >> 20
                );
            }
        }
        Err(reason) => text += &format!("no GPU: {reason}\n"),
    }
    print(&text)
}

/// A table without lines: columns two spaces apart.
fn borderless<const N: usize>(head: [&str; N]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::NOTHING).set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    table.set_header(head);
    table
}
