//! The command line's words. Parsing of values that are more than numbers is left to the modules that own them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Which MoE GEMM kernel is fastest on this device, at which batch size, by how much, how far from the limit, and is it right?
///
/// Without a verb: `moebius run`, the GLM-5 sweep (tp 8, batches 1 to 512, gemm1 and gemm2).
#[derive(Debug, Parser)]
#[command(name = "moebius", version, max_term_width = 110)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Verify and time kernels over cases, print the winners and write a results file
    Run(Box<RunArgs>),
    /// Verify kernels over cases, timing nothing
    Verify(Box<VerifyArgs>),
    /// List models, kernels or devices
    List(ListArgs),
    /// Measure what the device can do: bandwidths, matrix rates, launch floor
    Calibrate(CalibrateArgs),
    /// Compare two results files cell by cell
    Compare(CompareArgs),
    /// Exit 1 on confirmed regressions from a baseline file to a candidate file
    Gate(GateArgs),
    /// Which kernel to use at which batch size, and what a simpler choice costs
    Choose(ChooseArgs),
    /// Turn a results file into a page, a table or a CSV file
    Report(ReportArgs),
    /// Join the results files of shards
    Merge(MergeArgs),
    /// Turn a published table of layer times into a results file
    Import(ImportArgs),
    /// What would make numbers wrong on this machine, and how to mend it
    Doctor(DoctorArgs),
}

/// Which cases.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cases")]
pub struct CaseArgs {
    /// Model preset (see `moebius list models`) [default: glm-5]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["model_config", "shape"])]
    pub model: Option<String>,
    /// A local Hugging Face config.json
    #[arg(long, value_name = "FILE", conflicts_with = "shape")]
    pub model_config: Option<PathBuf>,
    /// A free shape: hidden, expert intermediate, experts, top-k
    #[arg(long, value_name = "H,I,E,K")]
    pub shape: Option<String>,
    /// Tensor parallelism [default: 8 for the default model, else 1]
    #[arg(long, value_name = "N")]
    pub tp: Option<u32>,
    /// Expert parallelism; the batch is then of the whole EP group
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub ep: u32,
    /// The EP rank to measure: a number, or `worst`, the one with most rows
    #[arg(long, value_name = "N|worst", default_value = "worst")]
    pub ep_rank: String,
    /// Pipeline parallelism
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub pp: u32,
    /// Batch sizes: numbers, and doubling ranges such as 1..512 [default: 1..512]
    #[arg(long, value_name = "LIST")]
    pub batch: Option<String>,
    /// Numbers of experts to try in place of the model's
    #[arg(long, value_name = "LIST")]
    pub experts: Option<String>,
    /// Numbers of experts per token to try in place of the model's
    #[arg(long, value_name = "LIST")]
    pub top_k: Option<String>,
    /// Stages: gemm1, gemm2
    #[arg(long, value_name = "LIST", default_value = "gemm1,gemm2")]
    pub stage: String,
    /// Routing: uniform, balanced, power-law:ALPHA, same, trace:FILE, rows:12,0,5,...
    #[arg(long, value_name = "KIND", default_value = "uniform")]
    pub routing: String,
    /// Seed of routing, operands and sampling order
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// The cases of a results file, with its kernels where --kernel names none
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "model", "model_config", "shape", "tp", "ep", "ep_rank", "pp", "batch", "experts", "top_k", "stage", "routing",
    ])]
    pub cells: Option<PathBuf>,
}

/// Which kernels, on which device.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Kernels")]
pub struct KernelArgs {
    /// Only kernels whose id matches one of these globs, such as 'cutlass/*' or '*-swap'
    #[arg(long, value_name = "GLOB")]
    pub kernel: Vec<String>,
    /// Only kernels whose tile matches one of these globs, such as '128x*'
    #[arg(long, value_name = "GLOB")]
    pub tile: Vec<String>,
    /// Only these schemes, such as nvfp4-w4a16
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub scheme: Vec<String>,
    /// cpu or cuda:N [default: cuda:0 where there is a GPU and the build has kernels for it, else cpu]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
}

/// State of the cache before each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum L2Arg {
    /// Weights are read from memory, as in serving.
    Cold,
    /// Weights are read again at once.
    Warm,
}

/// How calls reach a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LaunchArg {
    /// Replays of a CUDA graph.
    Graph,
    /// Launches on a stream.
    Stream,
}

/// `moebius run`
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Cases.
    #[command(flatten)]
    pub cases: CaseArgs,
    /// Kernels.
    #[command(flatten)]
    pub kernels: KernelArgs,
    /// Last-level cache before each call
    #[arg(long, value_enum, default_value = "cold", help_heading = "Measurement")]
    pub l2: L2Arg,
    /// How calls reach a GPU
    #[arg(long, value_enum, default_value = "graph", help_heading = "Measurement")]
    pub launch: LaunchArg,
    /// Wanted half-width of the 95% interval of each median, in percent [default: 1 on a GPU, 5 on the CPU]
    #[arg(long, value_name = "PERCENT", help_heading = "Measurement")]
    pub precision: Option<f64>,
    /// Longest sampling of one kernel in one case, in seconds; what one leaves unused goes to the others [default: 0.5]
    #[arg(long, value_name = "SECONDS", help_heading = "Measurement")]
    pub time_limit: Option<f64>,
    /// Give every kernel full precision, also those far from the best
    #[arg(long, help_heading = "Measurement")]
    pub exhaustive: bool,
    /// Only every n-th case, beginning with the i-th: i/n
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,
    /// A served token's time in milliseconds: says how much of it the MoE GEMMs explain
    #[arg(long, value_name = "MS")]
    pub tpot_ms: Option<f64>,
    /// Results file
    #[arg(long, value_name = "FILE", default_value = "results.json")]
    pub out: PathBuf,
    /// Print every kernel of each batch, not the winners only
    #[arg(long)]
    pub all: bool,
    /// Print the results as JSON in place of the table
    #[arg(long)]
    pub json: bool,
}

/// `moebius verify`
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// Cases.
    #[command(flatten)]
    pub cases: CaseArgs,
    /// Kernels.
    #[command(flatten)]
    pub kernels: KernelArgs,
    /// The correctness set (row counts around tile edges, empty experts, tails) in place of a model's cases
    #[arg(long)]
    pub edge_cases: bool,
    /// Results file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
}

/// `moebius list`
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// What to list.
    #[command(subcommand)]
    pub what: ListWhat,
}

/// What can be listed.
#[derive(Clone, Debug, Subcommand)]
pub enum ListWhat {
    /// Model presets, or the per-GPU shapes of one
    Models {
        /// One model, with its per-GPU shapes
        #[arg(long, value_name = "NAME", conflicts_with = "model_config")]
        model: Option<String>,
        /// A local Hugging Face config.json
        #[arg(long, value_name = "FILE")]
        model_config: Option<PathBuf>,
        /// Tensor parallelism [default: 1, 2, 4 and 8]
        #[arg(long, value_name = "LIST")]
        tp: Option<String>,
        /// Expert parallelism
        #[arg(long, value_name = "LIST", default_value = "1")]
        ep: String,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Kernels: built or why not, runnable here or why not, what they take of a multiprocessor
    Kernels {
        /// Only kernels whose id matches one of these globs
        #[arg(long, value_name = "GLOB")]
        kernel: Vec<String>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Devices of this machine
    Devices {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
}

/// `moebius calibrate`
#[derive(Clone, Debug, Args)]
pub struct CalibrateArgs {
    /// cpu or cuda:N
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `moebius compare`
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// The file to compare with
    pub baseline: PathBuf,
    /// The file that is compared
    pub candidate: PathBuf,
    /// Compare although devices, conditions or seeds differ
    #[arg(long)]
    pub force: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `moebius gate`
#[derive(Clone, Debug, Args)]
pub struct GateArgs {
    /// The file to hold against
    pub baseline: PathBuf,
    /// The file that must not be slower
    pub candidate: PathBuf,
    /// Slowdown in percent from which a cell is a regression
    #[arg(long, value_name = "PERCENT", default_value_t = 1.5)]
    pub threshold: f64,
    /// Compare although devices, conditions or seeds differ
    #[arg(long)]
    pub force: bool,
    /// Both builds of moebius: cells that look slower are measured again with each in turn before the gate judges them
    #[arg(long, num_args = 2, value_names = ["BASELINE_PROGRAM", "CANDIDATE_PROGRAM"])]
    pub confirm: Option<Vec<PathBuf>>,
    /// Device of --confirm [default: as for run]
    #[arg(long, value_name = "DEVICE", requires = "confirm")]
    pub device: Option<String>,
    /// Also write a Markdown summary
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `moebius choose`
#[derive(Clone, Debug, Args)]
pub struct ChooseArgs {
    /// Results file
    pub results: PathBuf,
    /// Print in this form in place of the table: json, markdown or tuned-config
    #[arg(long, value_name = "FORMAT")]
    pub export: Option<String>,
}

/// `moebius report`
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Results file
    pub results: PathBuf,
    /// Output: a name ending in .html, .md or .csv [default: every kernel in a table on the terminal]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Also write each plot as SVG and PNG into this folder, which is made when it is missing
    #[arg(long, value_name = "FOLDER")]
    pub plots: Option<PathBuf>,
}

/// `moebius merge`
#[derive(Clone, Debug, Args)]
pub struct MergeArgs {
    /// Results files of shards of one sweep
    #[arg(required = true)]
    pub shards: Vec<PathBuf>,
    /// Results file
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// `moebius import`
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// CSV table of published layer times
    pub table: PathBuf,
    /// Results file
    #[arg(long, value_name = "FILE", default_value = "results.json")]
    pub out: PathBuf,
}

/// `moebius doctor`
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `moebius` without a verb runs.
pub fn default_run() -> RunArgs {
    /// `moebius run` as a parser of its own, so that its defaults are written once.
    #[derive(Parser)]
    struct Defaults {
        #[command(flatten)]
        run: RunArgs,
    }
    Defaults::parse_from(["moebius"]).run
}
