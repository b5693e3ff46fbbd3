//! Shapes per GPU against a table that was not made from `models/`.

use moebius::shape::{Activation, Error, Model, Parallelism, shape_rows};

const TABLE: &str = include_str!("../fixtures/shapes.csv");

struct Line {
    model: &'static str,
    numbers: Vec<u32>,
}

impl Line {
    fn get(&self, column: &str) -> u32 {
        let header = TABLE.lines().next().unwrap();
        let at = header.split(',').position(|name| name == column).unwrap();
        self.numbers[at - 1]
    }
}

fn lines() -> impl Iterator<Item = Line> {
    TABLE.lines().skip(1).map(|line| {
        let (model, numbers) = line.split_once(',').unwrap();
        Line { model, numbers: numbers.split(',').map(|n| n.parse().unwrap()).collect() }
    })
}

#[test]
fn presets_are_the_models_of_the_table() {
    for line in lines() {
        let model = Model::preset(line.model).unwrap();
        assert_eq!(
            [model.hidden, model.intermediate, model.experts, model.top_k, model.moe_layers],
            ["hidden", "intermediate", "experts", "top_k", "moe_layers"].map(|column| line.get(column)),
            "{}",
            line.model
        );
        assert_eq!(model.activation.gated(), line.get("gated") == 1, "{}", line.model);
    }
    for model in Model::presets() {
        assert_eq!(lines().filter(|line| line.model == model.name).count(), 4, "{}", model.name);
    }
}

#[test]
fn per_gpu_shapes_and_alignments_match_at_every_split() {
    for line in lines() {
        let model = Model::preset(line.model).unwrap();
        for ep in [1, 4, 8] {
            let split = Parallelism { tp: line.get("tp"), ep, ..Parallelism::default() };
            let gpu = split.per_gpu(model).unwrap();
            let at = format!("{} tp {} ep {ep}", line.model, split.tp);
            assert_eq!([gpu.gemm1.n, gpu.gemm1.k], ["n1", "k1"].map(|c| line.get(c)), "{at}");
            assert_eq!([gpu.gemm2.n, gpu.gemm2.k], ["n2", "k2"].map(|c| line.get(c)), "{at}");
            assert_eq!([gpu.gemm1.experts, gpu.gemm2.experts].map(|e| e * ep), [line.get("experts"); 2], "{at}");
            let a = gpu.alignment();
            assert_eq!(
                [a.k16, a.k32, a.k128, a.n32, a.n128, a.half128].map(u32::from),
                ["k16", "k32", "k128", "n32", "n128", "half128"].map(|c| line.get(c)),
                "{at}"
            );
        }
    }
}

#[test]
fn a_split_that_does_not_divide_is_refused_with_its_numbers() {
    let model = Model::preset("qwen3-30b-a3b").unwrap();
    let refuse = |tp, ep, pp| Parallelism { tp, ep, pp, ..Parallelism::default() }.per_gpu(model).unwrap_err();
    assert_eq!(
        refuse(5, 1, 1).to_string(),
        "tp 5 does not divide the 768 expert intermediate columns of qwen3-30b-a3b; \
         give tp 1, 2, 4, 8, 16, 32, 64 or another divisor"
    );
    assert_eq!(
        refuse(1, 3, 1),
        Error::Split { axis: "ep", parts: 3, dimension: "experts", total: 128, model: model.name.clone() }
    );
    assert!(refuse(1, 1, 5).to_string().starts_with("pp 5 does not divide the 48 MoE layers of "));
    assert!(refuse(0, 1, 1).to_string().starts_with("--tp 0 is no parallelism"));
    assert!(refuse(4_000_000_000, 1, 1).to_string().starts_with("tp 4000000000 does not divide"));
}

#[test]
fn the_list_holds_every_combination_and_says_why_one_is_missing() {
    let models = Model::presets();
    let rows = shape_rows(models, &[1, 2, 4, 8], &[1, 4, 8], &[1]);
    assert_eq!(rows.len(), models.len() * 12);
    assert!(rows.iter().all(|row| row.per_gpu.is_some() && row.alignment.is_some() && row.refused.is_none()));

    let [row] = &shape_rows([&models[0]], &[3], &[1], &[1])[..] else { panic!("one row") };
    assert!(row.per_gpu.is_none());
    assert!(row.refused.as_ref().unwrap().starts_with("tp 3 does not divide the 2048 "));
    let json = serde_json::to_value(&rows[0]).unwrap();
    assert_eq!(json["per_gpu"]["gemm1"]["n"], 4096);
}

#[test]
fn special_forms_are_kept() {
    let oss = Model::preset("openai/gpt-oss-20b").unwrap();
    assert_eq!(oss.activation, Activation::SwigluOai { alpha: 1.702, limit: 7.0 });
    let super_ = Model::preset("nemotron-3-super").unwrap();
    assert_eq!((super_.hidden, super_.width(), super_.gemm1_columns()), (4096, 1024, 2688));
    let v3 = Model::preset("DeepSeek-V3").unwrap();
    assert_eq!((v3.router.groups, v3.router.top_groups, v3.router.scale), (8, 4, 2.5));
    assert!(Model::preset("qwen3-next-80b-a3b").unwrap().shared.unwrap().gated);
    assert_eq!(Model::preset("nvidia/GLM-5-NVFP4").unwrap().name, "glm-5");
    assert_eq!(Model::preset("zai-org/glm-5.1").unwrap().name, "glm-5");
}
