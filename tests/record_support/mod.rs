//! Synthetic results: small, deterministic, and with every kind of row.
#![allow(dead_code)] // each test file uses a part of it

use indexmap::IndexMap;
use moebius::kernel::{KernelId, Scheme};
use moebius::record::*;
use moebius::shape::{Case, GemmShape, Stage};

/// A GLM-5 case at tp 8 with `touched` experts of equal rows.
pub fn case(stage: Stage, batch: u32) -> Case {
    let shape = match stage {
        Stage::Gemm1 | Stage::Ffn => GemmShape { experts: 256, n: 512, k: 6144 },
        Stage::Gemm2 => GemmShape { experts: 256, n: 6144, k: 256 },
    };
    let mut rows = vec![0; 256];
    for i in 0..batch * 8 {
        rows[(i * 37 % 256) as usize] += 1;
    }
    Case {
        model: "GLM-5".into(),
        tp: 8,
        ep: 1,
        pp: 1,
        ep_rank: 0,
        batch,
        top_k: 8,
        routing: "uniform".into(),
        seed: 1,
        stage,
        shape,
        rows,
        moe_layers: 75,
    }
}

/// A deterministic stream of numbers in 0..1.
pub struct Noise(pub u64);

impl Noise {
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Samples around `median` with relative noise `noise`, one a round.
pub fn time(median: f64, noise: f64, seed: u64) -> TimeRecord {
    let mut random = Noise(seed);
    let samples: Vec<f64> = (0..40).map(|_| median * (1.0 + noise * random.normal())).collect();
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    TimeRecord {
        median_ns: (sorted[19] + sorted[20]) / 2.0,
        ci95_ns: [sorted[13], sorted[26]],
        rounds: (0..40).collect(),
        samples_ns: samples,
        calls_per_sample: 24,
        prepare_ns: None,
        raced_out: false,
        extra: Extra::new(),
    }
}

pub fn conditions() -> Conditions {
    Conditions {
        l2: L2::Cold,
        launch: Launch::Graph,
        pdl: false,
        plan: Some(SlotPlanRecord {
            slots: 32,
            layers: 1,
            weight_bytes: 453_000_000,
            reuse_distance_bytes: 400_000_000,
            cache_bytes: 50 << 20,
        }),
    }
}

pub fn row(case: Case, family: &str, scheme: Scheme, configuration: &str, time: Option<TimeRecord>) -> Row {
    Row {
        case,
        kernel: KernelRecord {
            id: KernelId::new(family, "sm90", scheme, configuration),
            scheme,
            needs_host_counts: false,
            image_sha256: None,
            version: None,
            extra: Extra::new(),
        },
        conditions: conditions(),
        status: Status::Ok,
        reason: None,
        verify: Some(VerifyRecord {
            max_error_over_bound: 0.4,
            elements: 1000,
            max_slope_over_limit: 0.2,
            max_frobenius_over_limit: 0.9,
            quantisation_error: Some(if scheme == Scheme::Nvfp4W4a4 { 0.135 } else { 0.095 }),
            retargeted: false,
            extra: Extra::new(),
        }),
        time,
        bound: None,
        telemetry: Some(TelemetryRecord { sm_clock_mhz: Some(1980), power_w: Some(410.5), ..Default::default() }),
        warnings: vec![],
        extra: Extra::new(),
    }
}

pub fn results(rows: Vec<Row>) -> Results {
    Results {
        schema: SCHEMA.into(),
        tool: Tool {
            version: "0.1.0".into(),
            git: Some("0123abcd".into()),
            nvcc: Some("12.9.86".into()),
            cutlass: Some("4.5.0".into()),
            archs: vec!["90a".into()],
            extra: Extra::new(),
        },
        host: Host {
            os: "Linux".into(),
            cpu: "Some processor".into(),
            cores: 16,
            memory_bytes: 128 << 30,
            started_unix: 1_790_000_000,
            extra: Extra::new(),
        },
        device: Device {
            name: "NVIDIA H200".into(),
            arch: "sm_90".into(),
            uuid: Some("GPU-1".into()),
            units: 132,
            memory_bytes: 141 << 30,
            cache_bytes: 50 << 20,
            driver: Some("580.1".into()),
            extra: Extra::new(),
        },
        ceilings: Ceilings {
            read_bytes_per_s: Some(4.43e12),
            write_bytes_per_s: Some(4.0e12),
            cache_read_bytes_per_s: Some(9.0e12),
            flops_per_s: IndexMap::from([(Scheme::Nvfp4W4a16, 780e12), (Scheme::Nvfp4W4a4, 780e12)]),
            launch_ns: Some(1200.0),
            datasheet_read_bytes_per_s: Some(4.8e12),
            datasheet_flops_per_s: IndexMap::from([(Scheme::Nvfp4W4a16, 989e12)]),
            source: Some("calibrated".into()),
            between_runs_sd_log: None,
            between_runs_degrees: None,
            extra: Extra::new(),
        },
        settings: Extra::from_iter([("seed".to_string(), 1.into()), ("shard".to_string(), "1/2".into())]),
        rows,
        extra: Extra::new(),
    }
}

/// One row of each status, and unknown fields everywhere.
pub fn one_of_each() -> Results {
    let statuses = [
        Status::Ok,
        Status::Unsupported,
        Status::NotBuilt,
        Status::Wrong,
        Status::Failed,
        Status::Timeout,
        Status::Impossible,
        Status::Unverified,
        Status::Imported,
    ];
    let rows = statuses.iter().enumerate().map(|(i, &status)| {
        let timed = matches!(status, Status::Ok | Status::Impossible | Status::Imported);
        let mut row = row(
            case(Stage::Gemm1, 1),
            "native",
            Scheme::Nvfp4W4a16,
            &format!("k{i}"),
            timed.then(|| time(8100.0, 0.01, i as u64)),
        );
        row.status = status;
        row.reason = (status != Status::Ok).then(|| format!("because of {}", status.as_str()));
        row.extra.insert("from_the_future".into(), serde_json::json!({"a": [1, null, "x"]}));
        row.kernel.extra.insert("registers".into(), 168.into());
        row
    });
    let mut results = results(rows.collect());
    results.extra.insert("note".into(), "kept".into());
    results
}

/// A sweep of gemm1 and gemm2 over ten batches by twenty kernels of two schemes, with floors, and a few rows of every
/// other outcome.
pub fn twenty_kernels() -> Results {
    let mut rows = Vec::new();
    for stage in [Stage::Gemm1, Stage::Gemm2] {
        for power in 0..10 {
            let batch = 1u32 << power;
            let touched = f64::from((batch * 8).min(256));
            for kernel in 0..20u32 {
                let scheme = if kernel % 2 == 0 { Scheme::Nvfp4W4a16 } else { Scheme::Nvfp4W4a4 };
                let family = ["native", "cutlass", "marlin", "triton", "cutedsl"][(kernel / 2 % 5) as usize];
                let tile = 8 << (kernel % 4);
                let width = f64::from(tile) / 16.0;
                let padding = (f64::from(batch) / touched * 8.0 / width).max(width / 4.0);
                let ns =
                    4.5e3 + touched * 480.0 * (1.0 + 0.05 * f64::from(kernel / 4)) + 300.0 * padding * touched.sqrt();
                let name = format!("{tile}x{}-k{}", 16 << (kernel % 3), 128 << (kernel % 2));
                let seed = u64::from(batch * 100 + kernel);
                let mut row =
                    row(case(stage, batch), family, scheme, &format!("{name}-v{kernel}"), Some(time(ns, 0.006, seed)));
                row.kernel.extra.insert("registers".into(), (96 + kernel).into());
                row.kernel.extra.insert("shared_bytes".into(), (10_752 * (1 + kernel % 8)).into());
                row.kernel.extra.insert("spill_bytes".into(), (if kernel == 7 { 120 } else { 0 }).into());
                if kernel == 9 && batch < 4 {
                    row.status = Status::Unsupported;
                    row.reason = Some("batch below the tile <64>".into());
                    row.time = None;
                }
                if kernel == 11 && batch == 64 {
                    row.status = Status::Wrong;
                    row.reason = Some("expert 3 is off by 3 %".into());
                    row.time = None;
                }
                if kernel == 4 && batch == 16 {
                    row.warnings.push("drift: the second half is 2 % slower than the first".into());
                }
                rows.push(row);
            }
        }
    }
    let mut results = results(rows);
    let (ceilings, device) = (results.ceilings.clone(), results.device.clone());
    results.rows.iter_mut().for_each(|row| moebius::analyse::bind(row, &ceilings, &device));
    results
}
