//! kernels.toml: families and their configurations.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::headers::Need;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    family: Vec<Family>,
}

/// Kernels that share a template.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// `family/arch/scheme`.
    pub id: String,
    /// 80 (every chip), 90, 100 or 120.
    pub chip: u32,
    /// Header below csrc/ that defines the unit.
    pub template: String,
    /// Instruction that the machine code of each unit must hold.
    pub sass: Option<String>,
    /// Header sets.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Least CUTLASS version.
    pub cutlass: Option<String>,
    /// The configurations.
    units: Vec<Configuration>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    tile: [u32; 3],
    #[serde(default = "one_by_one")]
    cluster: [u32; 2],
    schedule: Option<String>,
    #[serde(default)]
    swap: bool,
    #[serde(default)]
    set: SetName,
    cutlass: Option<String>,
    #[serde(default)]
    define: BTreeMap<String, i64>,
    tag: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SetName {
    Default,
    #[default]
    Full,
}

fn one_by_one() -> [u32; 2] {
    [1, 1]
}

/// One kernel to compile.
#[derive(Clone, Debug)]
pub struct Unit {
    /// `family/arch/scheme/configuration`.
    pub id: String,
    /// `family/arch/scheme`.
    pub family: String,
    /// 80, 90, 100 or 120.
    pub chip: u32,
    /// Header below csrc/.
    pub template: String,
    /// Instruction that the machine code must hold.
    pub sass: Option<String>,
    /// Header sets.
    pub needs: Vec<Need>,
    /// Least CUTLASS version.
    pub cutlass: Option<String>,
    /// m, n, k.
    pub tile: [u32; 3],
    /// Blocks of a cluster along m and n.
    pub cluster: [u32; 2],
    /// `cooperative`, `pingpong` or none.
    pub schedule: Option<String>,
    /// Weights are the M operand.
    pub swap: bool,
    /// Built without being asked for.
    pub in_default_set: bool,
    /// Macros of the template.
    pub define: BTreeMap<String, i64>,
}

/// Reads kernels.toml.
///
/// # Errors
/// A sentence that names the place, the family or the two configurations with one id.
pub fn parse(text: &str) -> Result<Vec<Unit>, String> {
    let manifest: Manifest = toml::from_str(text)
        .map_err(|e| format!("kernels.toml cannot be read: {}", super::one_line(&e.to_string())))?;
    let mut units: Vec<Unit> = Vec::new();
    for family in &manifest.family {
        if family.id.split('/').count() != 3 || family.id.split('/').any(str::is_empty) {
            return Err(format!("kernels.toml: the id `{}` is not of the form family/arch/scheme", family.id));
        }
        if ![80, 90, 100, 120].contains(&family.chip) {
            return Err(format!("kernels.toml: chip {} of {} is not 80, 90, 100 or 120", family.chip, family.id));
        }
        for configuration in &family.units {
            let unit = configuration.unit(family)?;
            if units.iter().any(|other| other.id == unit.id) {
                return Err(format!("kernels.toml names {} twice: tell the two apart with `tag`", unit.id));
            }
            units.push(unit);
        }
    }
    Ok(units)
}

impl Configuration {
    fn unit(&self, family: &Family) -> Result<Unit, String> {
        let [m, n, k] = self.tile;
        let mut configuration = format!("{m}x{n}x{k}");
        if let Some(schedule) = &self.schedule {
            if !["cooperative", "pingpong"].contains(&schedule.as_str()) {
                return Err(format!(
                    "kernels.toml: schedule `{schedule}` of {} is neither cooperative nor pingpong",
                    family.id
                ));
            }
            configuration += &format!("-{schedule}");
        }
        if self.swap {
            configuration += "-swap";
        }
        if self.cluster != [1, 1] {
            configuration += &format!("-c{}x{}", self.cluster[0], self.cluster[1]);
        }
        for (name, value) in &self.define {
            configuration += &format!("-{}{value}", name.to_lowercase());
        }
        if let Some(tag) = &self.tag {
            configuration += &format!("-{tag}");
        }
        Ok(Unit {
            id: format!("{}/{configuration}", family.id),
            family: family.id.clone(),
            chip: family.chip,
            template: family.template.clone(),
            sass: family.sass.clone(),
            needs: family.needs.clone(),
            cutlass: self.cutlass.clone().or_else(|| family.cutlass.clone()),
            tile: self.tile,
            cluster: self.cluster,
            schedule: self.schedule.clone(),
            swap: self.swap,
            in_default_set: self.set == SetName::Default,
            define: self.define.clone(),
        })
    }
}

/// Sources below csrc/support/ that the harness itself runs on a device.
const SUPPORT: [&str; 4] = ["reference", "streams", "mma", "tensor_map"];

/// The support code, compiled like kernels but never listed as one.
pub fn support() -> Vec<Unit> {
    let unit = |name: &&str| Unit {
        id: format!("support/{name}"),
        family: "support/any/bf16".to_owned(),
        chip: 80,
        template: format!("support/{name}.cu"),
        sass: None,
        needs: Vec::new(),
        cutlass: None,
        tile: [1, 1, 1],
        cluster: one_by_one(),
        schedule: None,
        swap: false,
        in_default_set: true,
        define: BTreeMap::new(),
    };
    SUPPORT.iter().map(unit).collect()
}

impl Unit {
    /// The C identifier of its `moebius_unit`.
    pub fn symbol(&self) -> String {
        let letters = self.id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
        format!("moebius_unit_{}", letters.collect::<String>())
    }

    /// The scheme, the third part of the id.
    pub fn scheme(&self) -> &str {
        self.family.rsplit('/').next().unwrap_or_default()
    }

    /// The translation unit.
    pub fn source(&self, version: &str) -> String {
        let symbol = self.symbol();
        let flag = |name: &str| u8::from(self.schedule.as_deref() == Some(name));
        let mut text = format!(
            "// Made of kernels.toml by build.rs.\n\
             #define MOEBIUS_UNIT_SYMBOL {symbol}\n\
             #define MOEBIUS_UNIT_FOOTPRINT {symbol}_footprint\n\
             #define MOEBIUS_UNIT_ID \"{}\"\n\
             #define MOEBIUS_UNIT_VERSION \"{version}\"\n\
             #define MOEBIUS_UNIT_SCHEME MOEBIUS_{}\n\
             #define MOEBIUS_UNIT_CHIP {}\n",
            self.id,
            self.scheme().to_uppercase().replace('-', "_"),
            self.chip,
        );
        for (name, value) in [
            ("TILE_M", self.tile[0]),
            ("TILE_N", self.tile[1]),
            ("TILE_K", self.tile[2]),
            ("CLUSTER_M", self.cluster[0]),
            ("CLUSTER_N", self.cluster[1]),
            ("COOPERATIVE", flag("cooperative").into()),
            ("PINGPONG", flag("pingpong").into()),
            ("SWAP", u8::from(self.swap).into()),
        ] {
            text += &format!("#define MOEBIUS_{name} {value}\n");
        }
        for (name, value) in &self.define {
            text += &format!("#define MOEBIUS_{} {value}\n", name.to_uppercase());
        }
        text + &format!("#include \"{}\"\n", self.template)
    }
}
