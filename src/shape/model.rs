//! Models: the shape of one MoE layer, whatever the GPU.

use serde::{Deserialize, Serialize};

use super::error::{Error, quote};

/// Largest hidden or intermediate size taken for real: 16 times that of the widest model known.
pub const MAX_WIDTH: u32 = 1 << 18;
/// Most experts of a layer: 8 times those of the model with most.
pub const MAX_EXPERTS: u32 = 1 << 12;
/// Most layers.
pub const MAX_LAYERS: u32 = 1 << 12;

/// The shape of the MoE layers of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name of the preset, of the config file's folder, or of the free shape.
    pub name: String,
    /// Hugging Face id, such as `zai-org/GLM-5`; empty when there is none.
    #[serde(default)]
    pub id: String,
    /// Ids of other models of exactly this shape.
    #[serde(default)]
    pub same_shape: Vec<String>,
    /// How well the numbers are known.
    pub confidence: Confidence,
    /// What a user must know besides.
    #[serde(default)]
    pub note: String,
    /// Hidden size H.
    pub hidden: u32,
    /// Intermediate size I of one routed expert.
    pub intermediate: u32,
    /// Routed experts E of a layer.
    pub experts: u32,
    /// Experts per token.
    pub top_k: u32,
    /// Width of the space that the experts work in, where it is not the hidden size (LatentMoE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<u32>,
    /// Layers of all kinds, multi-token prediction not counted.
    pub layers: u32,
    /// Of these, layers with routed experts.
    pub moe_layers: u32,
    /// What happens between gemm1 and gemm2.
    pub activation: Activation,
    /// Experts that every token visits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedExperts>,
    /// Where the numbers come from.
    pub sources: Vec<String>,
    /// How experts are chosen and weighted.
    pub router: Router,
    /// Published checkpoints with quantised experts.
    #[serde(default)]
    pub quantised: Vec<Quantised>,
}

/// How well the numbers of a model are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Two or more independent sources agree.
    Verified,
    /// One source.
    SingleSource,
    /// Given by the user: a config file or a free shape.
    Given,
}

/// What happens between gemm1 and gemm2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Activation {
    /// `silu(gate) * up`.
    Swiglu,
    /// `min(silu(gate), limit) * clamp(up, -limit, limit)`.
    SwigluClamped {
        /// L of the formula.
        limit: f64,
    },
    /// `g * sigmoid(alpha * g) * (u + 1)` with `g = min(gate, limit)`, `u = clamp(up, -limit, limit)`.
    SwigluOai {
        /// Slope of the sigmoid.
        alpha: f64,
        /// Clamp of both halves.
        limit: f64,
    },
    /// `max(x, 0)^2`: gemm1 has no gate, hence half as many columns.
    Relu2,
}

impl Activation {
    /// Whether gemm1 computes a gate beside the up projection.
    pub fn gated(self) -> bool {
        !matches!(self, Activation::Relu2)
    }
}

/// How experts are chosen and weighted. It does not change the GEMMs, only the weights of the combine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// From logits to weights.
    pub score: Score,
    /// A learned bias is added to the scores for the choice only.
    #[serde(default)]
    pub selection_bias: bool,
    /// Groups that the experts are divided into for the choice.
    #[serde(default = "one")]
    pub groups: u32,
    /// Groups that may be chosen from.
    #[serde(default = "one")]
    pub top_groups: u32,
    /// The chosen weights are divided by their sum.
    pub renormalise: bool,
    /// Factor on the weights.
    #[serde(default = "unit")]
    pub scale: f64,
}

fn one() -> u32 {
    1
}

fn unit() -> f64 {
    1.0
}

/// From router logits to expert weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// Softmax over all experts, then the top k.
    Softmax,
    /// Sigmoid of each logit, then the top k.
    Sigmoid,
    /// The top k logits, then softmax over these.
    SoftmaxOfTopK,
    /// The top k logits, then the sigmoid of each; it multiplies the input of the expert, not its output.
    SigmoidOfTopK,
}

/// Experts that every token visits. They are not part of the grouped GEMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedExperts {
    /// How many.
    pub experts: u32,
    /// Intermediate size of all of them together.
    pub intermediate: u32,
    /// Their output is multiplied by a learned gate.
    #[serde(default)]
    pub gated: bool,
}

/// A published checkpoint with quantised experts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantised {
    /// The word of the scheme, where moebius has one for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
    /// Hugging Face ids.
    pub checkpoints: Vec<String>,
    /// What is left out, or the format where there is no word for it.
    #[serde(default)]
    pub note: String,
}

impl Model {
    /// Width that the routed experts read and write: K of gemm1 and N of gemm2.
    pub fn width(&self) -> u32 {
        self.latent.unwrap_or(self.hidden)
    }

    /// Columns of gemm1 before tensor parallelism: gate and up side by side, or up alone.
    pub fn gemm1_columns(&self) -> u32 {
        if self.activation.gated() { 2 * self.intermediate } else { self.intermediate }
    }

    /// A layer that no model has, of hidden size, expert intermediate size, experts and experts per token; gated.
    ///
    /// # Errors
    /// When `text` is not four positive numbers within the limits of [`Model::check`].
    pub fn free_shape(text: &str) -> Result<Model, Error> {
        let wrong = |problem: String| {
            Error::value(format!("--shape {}", quote(text)), problem, "give H,I,E,K such as 6144,2048,256,8")
        };
        let numbers = text
            .split(',')
            .map(|part| part.trim().parse::<u32>().map_err(|_| wrong(format!("has {} for a number", quote(part)))))
            .collect::<Result<Vec<u32>, Error>>()?;
        let &[hidden, intermediate, experts, top_k] = numbers.as_slice() else {
            return Err(wrong(format!("has {} numbers, not 4", numbers.len())));
        };
        let model = Model {
            name: format!("shape:{hidden},{intermediate},{experts},{top_k}"),
            id: String::new(),
            same_shape: Vec::new(),
            confidence: Confidence::Given,
            note: String::new(),
            hidden,
            intermediate,
            experts,
            top_k,
            latent: None,
            layers: 1,
            moe_layers: 1,
            activation: Activation::Swiglu,
            shared: None,
            sources: vec!["given as a free shape".into()],
            router: Router {
                score: Score::Softmax,
                selection_bias: false,
                groups: 1,
                top_groups: 1,
                renormalise: true,
                scale: 1.0,
            },
            quantised: Vec::new(),
        };
        model.check().map_err(|(field, problem)| wrong(format!("has {field} that {problem}")))?;
        Ok(model)
    }

    /// The same model with other numbers of experts or experts per token, and a name that says so.
    ///
    /// # Errors
    /// When a number is 0, too large, or top-k exceeds the experts.
    pub fn with_experts(&self, experts: Option<u32>, top_k: Option<u32>) -> Result<Model, Error> {
        let mut model = self.clone();
        if let Some(experts) = experts.filter(|&n| n != self.experts) {
            model.experts = experts;
            model.name += &format!(" experts {experts}");
        }
        if let Some(top_k) = top_k.filter(|&n| n != self.top_k) {
            model.top_k = top_k;
            model.name += &format!(" top-k {top_k}");
        }
        model.check().map_err(|(field, problem)| {
            Error::value(
                format!("{} with {} experts and top-k {}", self.name, model.experts, model.top_k),
                format!("has {field} that {problem}"),
                "change --experts or --top-k",
            )
        })?;
        Ok(model)
    }

    /// Whether the numbers can be those of a layer: each at least 1 and within [`MAX_WIDTH`], [`MAX_EXPERTS`] and
    /// [`MAX_LAYERS`], no more experts per token than experts, no more MoE layers than layers.
    ///
    /// # Errors
    /// The field and what is wrong with it.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let fields = [
            ("hidden", self.hidden, MAX_WIDTH, ""),
            ("intermediate", self.intermediate, MAX_WIDTH, ""),
            ("latent", self.width(), MAX_WIDTH, ""),
            ("experts", self.experts, MAX_EXPERTS, ""),
            ("top_k", self.top_k, self.experts, " experts"),
            ("layers", self.layers, MAX_LAYERS, ""),
            ("moe_layers", self.moe_layers, self.layers, " layers"),
        ];
        for (field, value, most, of) in fields {
            if value == 0 {
                return Err((field, "is 0".into()));
            }
            if value > most {
                return Err((field, format!("is {value}, more than {most}{of}")));
            }
        }
        Ok(())
    }
}
