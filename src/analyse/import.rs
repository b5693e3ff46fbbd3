//! Tables that others published, as results files.
//!
//! Known form: the MoE tables of aiconfigurator, one line for each framework, version, kernel, number format and batch,
//! with the latency of one whole MoE layer call in milliseconds (stage `ffn`). `num_tokens` is the batch of the whole EP
//! group. The GPU is known by its data sheet.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::datasheet::{DataSheet, datasheet};
use super::floor::bind;
use super::impossible::mark_impossible;
use crate::kernel::{KernelId, Scheme};
use crate::record::{
    Ceilings, Conditions, Extra, Host, KernelRecord, L2, Launch, Results, Row, SCHEMA, Status, TimeRecord, Tool,
};
use crate::shape::{Case, GemmShape, Stage};

/// A model that a published shape is recognised as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownModel {
    /// Its name.
    pub name: String,
    /// Hidden size.
    pub hidden: u32,
    /// Expert intermediate size.
    pub inter: u32,
    /// Experts.
    pub experts: u32,
    /// Experts per token.
    pub top_k: u32,
    /// MoE layers.
    pub moe_layers: u32,
}

/// An imported table.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Its rows, `imported` or `impossible`.
    pub results: Results,
    /// What was left out, and what is assumed.
    pub notes: Vec<String>,
}

/// One line of the table.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    framework: String,
    version: String,
    device: String,
    kernel_source: String,
    moe_dtype: String,
    num_tokens: u32,
    hidden_size: u32,
    inter_size: u32,
    topk: u32,
    num_experts: u32,
    moe_tp_size: u32,
    moe_ep_size: u32,
    distribution: String,
    latency: f64,
}

/// Reads a published table. `source` names it in the file's settings.
///
/// # Errors
/// One sentence with the line and the column when the table is not of the known form, or names a device whose data
/// sheet is not known, or several devices.
pub fn import_csv(text: &[u8], source: &str, models: &[KnownModel]) -> Result<Imported, String> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
    let mut left_out: BTreeMap<String, usize> = BTreeMap::new();
    let mut device: Option<(String, &'static DataSheet)> = None;
    let mut rows = Vec::new();
    let mut unknown_rows = 0;
    for (index, line) in reader.deserialize::<Line>().enumerate() {
        let number = index + 2;
        let line = line.map_err(|error| explain(&error, number))?;
        check(&line, number)?;
        let sheet = match &device {
            Some((name, sheet)) if *name == line.device => *sheet,
            Some((name, _)) => {
                return Err(format!(
                    "line {number}: device `{}` after `{name}`; import one device at a time",
                    line.device
                ));
            }
            None => {
                let sheet = datasheet(&line.device)
                    .ok_or_else(|| format!("line {number}: the data sheet of device `{}` is not known", line.device))?;
                device = Some((line.device.clone(), sheet));
                sheet
            }
        };
        let Some(scheme) = scheme(&line.moe_dtype) else {
            *left_out.entry(line.moe_dtype).or_default() += 1;
            continue;
        };
        let row = row(&line, scheme, sheet, models, source);
        unknown_rows += usize::from(row.case.rows.is_empty());
        rows.push(row);
    }
    let Some((name, sheet)) = device else {
        return Err("holds no rows; give a table with a heading and lines".to_string());
    };
    let mut ceilings = Ceilings { source: Some("data sheet".to_string()), ..Ceilings::default() };
    sheet.enter(&mut ceilings);
    let device = sheet.device(&name);
    for row in &mut rows {
        bind(row, &ceilings, &device);
        mark_impossible(row, &ceilings, &device);
    }
    let results = Results {
        schema: SCHEMA.to_string(),
        tool: Tool {
            version: env!("CARGO_PKG_VERSION").to_string(),
            git: None,
            nvcc: None,
            cutlass: None,
            archs: Vec::new(),
            extra: Extra::new(),
        },
        host: Host {
            os: "unknown".to_string(),
            cpu: "unknown".to_string(),
            cores: 0,
            memory_bytes: 0,
            started_unix: 0,
            extra: Extra::new(),
        },
        device,
        ceilings,
        settings: Extra::from_iter([("imported_from".to_string(), source.into())]),
        rows,
        extra: Extra::new(),
    };
    Ok(Imported { results, notes: notes(left_out, unknown_rows) })
}

fn explain(error: &csv::Error, number: usize) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|f| usize::try_from(f).ok()).map(|f| format!(" column {}:", f + 1));
            format!(
                "line {number}:{} {}; give a table in aiconfigurator's form",
                column.unwrap_or_default(),
                err.kind()
            )
        }
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("line {number}: has {len} fields instead of {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => format!("line {number}: is not UTF-8 text"),
        _ => format!("line {number}: cannot be read ({error})"),
    }
}

/// Refuses sizes that no layer has.
fn check(line: &Line, number: usize) -> Result<(), String> {
    let sizes = [
        ("num_tokens", line.num_tokens, 1 << 20),
        ("hidden_size", line.hidden_size, 1 << 17),
        ("inter_size", line.inter_size, 1 << 17),
        ("topk", line.topk, 1 << 10),
        ("num_experts", line.num_experts, 1 << 16),
        ("moe_tp_size", line.moe_tp_size, 1 << 16),
        ("moe_ep_size", line.moe_ep_size, 1 << 16),
    ];
    for (field, value, most) in sizes {
        if value == 0 || value > most {
            return Err(format!("line {number}: {field} {value} is not between 1 and {most}"));
        }
    }
    if line.topk > line.num_experts {
        return Err(format!("line {number}: topk {} is more than num_experts {}", line.topk, line.num_experts));
    }
    for (field, value, by) in
        [("inter_size", line.inter_size, line.moe_tp_size), ("num_experts", line.num_experts, line.moe_ep_size)]
    {
        if value % by != 0 {
            return Err(format!("line {number}: {field} {value} does not divide by {by}"));
        }
    }
    if !(line.latency.is_finite() && line.latency > 0.0) {
        return Err(format!("line {number}: latency {} is not a positive number of milliseconds", line.latency));
    }
    if [&line.device, &line.framework, &line.version, &line.kernel_source, &line.distribution]
        .into_iter()
        .any(|text| text.is_empty() || text.chars().any(char::is_control))
    {
        return Err(format!("line {number}: a name is empty or holds control characters"));
    }
    Ok(())
}

fn scheme(dtype: &str) -> Option<Scheme> {
    match dtype {
        "bfloat16" => Some(Scheme::Bf16),
        "fp8" => Some(Scheme::Fp8),
        "fp8_block" => Some(Scheme::Fp8Block),
        "nvfp4" => Some(Scheme::Nvfp4W4a4),
        _ => None,
    }
}

fn row(line: &Line, scheme: Scheme, sheet: &DataSheet, models: &[KnownModel], source: &str) -> Row {
    let version = format!("{} {}", line.framework, line.version);
    let part = |text: &str| text.to_lowercase().replace(|c: char| c == '/' || c.is_whitespace(), "_");
    let ns = line.latency * 1e6;
    Row {
        case: case(line, models),
        kernel: KernelRecord {
            id: KernelId::new(
                &part(&line.framework),
                &sheet.arch.replace('_', ""),
                scheme,
                &format!("{}@{}", part(&line.kernel_source), part(&line.version)),
            ),
            scheme,
            needs_host_counts: false,
            image_sha256: None,
            version: Some(version.clone()),
            extra: Extra::new(),
        },
        conditions: Conditions { l2: L2::Cold, launch: Launch::Graph, pdl: false, plan: None },
        status: Status::Imported,
        reason: Some(format!("from {}: {version}", source.replace(char::is_control, " "))),
        verify: None,
        time: Some(TimeRecord {
            median_ns: ns,
            ci95_ns: [ns, ns],
            samples_ns: Vec::new(),
            rounds: Vec::new(),
            calls_per_sample: 0,
            prepare_ns: None,
            raced_out: false,
            extra: Extra::new(),
        }),
        bound: None,
        telemetry: None,
        warnings: Vec::new(),
        extra: Extra::new(),
    }
}

fn case(line: &Line, models: &[KnownModel]) -> Case {
    let known = models.iter().find(|m| {
        (m.hidden, m.inter, m.experts, m.top_k) == (line.hidden_size, line.inter_size, line.num_experts, line.topk)
    });
    let balanced = line.distribution == "balanced";
    Case {
        model: known.map_or_else(
            || format!("H{}-I{}-E{}-K{}", line.hidden_size, line.inter_size, line.num_experts, line.topk),
            |m| m.name.clone(),
        ),
        tp: line.moe_tp_size,
        ep: line.moe_ep_size,
        pp: 1,
        ep_rank: 0,
        batch: line.num_tokens,
        top_k: line.topk,
        routing: routing_word(&line.distribution),
        seed: 0,
        stage: Stage::Ffn,
        shape: GemmShape {
            experts: line.num_experts / line.moe_ep_size,
            n: 2 * line.inter_size / line.moe_tp_size,
            k: line.hidden_size,
        },
        rows: if balanced { balanced_rows(line) } else { Vec::new() },
        moe_layers: known.map_or(0, |m| m.moe_layers),
    }
}

/// `power_law_1.2` is our `power-law:1.2`.
fn routing_word(distribution: &str) -> String {
    match distribution.strip_prefix("power_law_") {
        Some(alpha) => format!("power-law:{alpha}"),
        None => distribution.replace('_', "-"),
    }
}

/// Rows per expert of EP rank 0, balanced as these tables are: choice `i` of token `t` goes to expert
/// `(t' + i * stride) mod experts`, where the stride is `ceil(experts / topk)` and `t'` is `t`, spread over a stride when
/// there are fewer tokens than that. So few tokens go to experts that lie far apart, on every EP rank alike.
fn balanced_rows(line: &Line) -> Vec<u32> {
    let (experts, tokens) = (line.num_experts, line.num_tokens);
    let stride = experts.div_ceil(line.topk);
    let mut rows = vec![0; (experts / line.moe_ep_size) as usize];
    for token in 0..u64::from(tokens) {
        let first = if tokens >= stride { token } else { token * u64::from(stride) / u64::from(tokens) };
        for choice in 0..u64::from(line.topk) {
            let expert = (first + choice * u64::from(stride)) % u64::from(experts);
            if let Some(count) = usize::try_from(expert).ok().and_then(|e| rows.get_mut(e)) {
                *count += 1;
            }
        }
    }
    rows
}

fn notes(left_out: BTreeMap<String, usize>, unknown_rows: usize) -> Vec<String> {
    let mut notes: Vec<String> = left_out
        .into_iter()
        .map(|(dtype, count)| {
            format!("{count} lines of number format `{dtype}` were left out: no scheme is known for it")
        })
        .collect();
    if unknown_rows > 0 {
        notes.push(format!(
            "{unknown_rows} lines have no floor: their routing is known by name only, not the rows per expert"
        ));
    }
    notes.push(
        "the cache is taken to be cold, as the table says nothing else; impossible rows show where it was not"
            .to_string(),
    );
    notes
}
