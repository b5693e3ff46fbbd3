//! `moebius list`

use serde::Serialize;

use super::args::{ListArgs, ListWhat};
use super::error::{CliError, print, print_json};
use crate::device::cuda;
use crate::kernel::{Selection, cpu_kernels};
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

/// A kernel as it is listed.
#[derive(Serialize)]
struct KernelLine {
    id: String,
    arch: String,
    scheme: String,
    tile: String,
    needs_host_counts: bool,
    built: bool,
    /// Why it is not built, or cannot run here.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

fn kernels(globs: &[String], json: bool) -> Result<(), CliError> {
    let selection = Selection { kernels: globs.to_vec(), ..Selection::default() };
    let lines: Vec<KernelLine> = selection
        .select(cpu_kernels())
        .map_err(CliError::input)?
        .iter()
        .map(|kernel| {
            let info = kernel.info();
            KernelLine {
                id: info.id.to_string(),
                arch: info.arch.clone(),
                scheme: info.scheme.to_string(),
                tile: info.tile.clone(),
                needs_host_counts: info.needs_host_counts,
                built: true,
                reason: None,
            }
        })
        .collect();
    if json {
        return print_json(&lines);
    }
    let mut table = borderless(["kernel", "arch", "scheme", "tile", "runs here"]);
    for line in &lines {
        table.add_row([
            line.id.as_str(),
            line.arch.as_str(),
            line.scheme.as_str(),
            line.tile.as_str(),
            line.reason.as_deref().unwrap_or("yes"),
        ]);
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
