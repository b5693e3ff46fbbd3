//! Tuned-config files as SGLang and vLLM read them for their Triton MoE kernel: one JSON object a batch, keyed by the
//! batch, with block sizes and launch numbers.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::winners::{Ranked, SchemeSweep, Sweep};
use crate::kernel::Scheme;
use crate::record::CaseKey;
use crate::shape::Stage;

/// A tuned-config file.
#[derive(Clone, Debug, PartialEq)]
pub struct TunedConfig {
    /// The name under which those engines look for it.
    pub file_name: String,
    /// Batch to configuration.
    pub configs: IndexMap<String, Map<String, Value>>,
    /// For each batch the time of the named kernel over that of the best of all, which may have no such form.
    pub cost: IndexMap<u32, f64>,
}

/// The tuned-config files of a sweep of gemm1 or the whole layer: one for each scheme with a kernel that has such a form.
///
/// A kernel has one when its record holds the object `tuned_config`, or when it is of the family `triton` and its
/// configuration reads `MxNxK`, with `-gG`, `-wW`, `-sS` for the group size in M, warps and stages.
///
/// # Errors
/// One sentence when the sweep is of gemm2, or no kernel in it has such a form.
pub fn tuned_configs(sweep: &Sweep<'_>, device_name: &str) -> Result<Vec<TunedConfig>, String> {
    let case = &sweep.key.case;
    if case.stage == Stage::Gemm2 {
        return Err("a tuned config is looked up by gemm1's shape; export gemm1 or ffn".to_string());
    }
    let configs: Vec<TunedConfig> =
        sweep.schemes.iter().filter_map(|block| of_scheme(case, block, device_name)).collect();
    if configs.is_empty() {
        return Err(format!(
            "no timed kernel of `{}` has a tuned-config form; only Triton kernels have one",
            case.model
        ));
    }
    Ok(configs)
}

fn of_scheme(case: &CaseKey, block: &SchemeSweep<'_>, device_name: &str) -> Option<TunedConfig> {
    let mut configs = IndexMap::new();
    let mut cost = IndexMap::new();
    for cell in &block.cells {
        let usable = cell.ranked.iter().filter(|r| !r.row.kernel.needs_host_counts);
        let Some((ranked, config)) = usable.filter_map(|r| Some((r, form(r)?))).next() else { continue };
        configs.insert(cell.batch.to_string(), config);
        cost.insert(cell.batch, ranked.ratio.max(1.0));
    }
    let device = device_name.replace(|c: char| c == '/' || c.is_whitespace(), "_");
    let file_name =
        format!("E={},N={},device_name={device}{}.json", case.experts, case.n / 2, dtype_part(block.scheme));
    (!configs.is_empty()).then_some(TunedConfig { file_name, configs, cost })
}

/// How those engines name number formats in file names; bf16 has no name.
fn dtype_part(scheme: Scheme) -> String {
    match scheme {
        Scheme::Bf16 => String::new(),
        Scheme::Fp8 => ",dtype=fp8_w8a8".to_string(),
        Scheme::Fp8Block => ",dtype=fp8_w8a8,block_shape=[128, 128]".to_string(),
        other => format!(",dtype={other}"),
    }
}

fn form(ranked: &Ranked<'_>) -> Option<Map<String, Value>> {
    let kernel = &ranked.row.kernel;
    if let Some(Value::Object(config)) = kernel.extra.get("tuned_config") {
        return Some(config.clone());
    }
    (kernel.id.family() == "triton").then(|| parse(kernel.id.configuration())).flatten()
}

fn parse(configuration: &str) -> Option<Map<String, Value>> {
    let mut parts = configuration.split('-');
    let tile: Vec<u32> = parts.next()?.split('x').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let [m, n, k] = tile.try_into().ok()?;
    let mut config = Map::new();
    for (name, value) in [("BLOCK_SIZE_M", m), ("BLOCK_SIZE_N", n), ("BLOCK_SIZE_K", k), ("GROUP_SIZE_M", 1)] {
        config.insert(name.to_string(), value.into());
    }
    for part in parts {
        let (letter, number) = part.split_at_checked(1)?;
        let name = match letter {
            "g" => "GROUP_SIZE_M",
            "w" => "num_warps",
            "s" => "num_stages",
            _ => continue,
        };
        config.insert(name.to_string(), number.parse::<u32>().ok()?.into());
    }
    Some(config)
}
