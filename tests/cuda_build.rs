//! The CUDA part of the build script, on temporary folders with programs that only claim to be nvcc or Python.

#[allow(dead_code)]
#[path = "../build/mod.rs"]
mod cuda;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cuda::archs::{self, Arch};
use cuda::driver::Driver;
use cuda::manifest::{self, Unit};
use cuda::settings::{KernelSet, Settings};
use cuda::{compile, fetch, headers, jobs, pins, sass, toolkit};
use tempfile::TempDir;

fn settings(cache: &Path) -> Settings {
    Settings {
        archs: None,
        kernels: KernelSet::Default,
        nvcc: None,
        cuda_homes: Vec::new(),
        path: Vec::new(),
        system_cuda: cache.join("no-system-toolkit"),
        cutlass_dir: None,
        cache_dir: cache.join("cache"),
        jobs: None,
        retarget: false,
        offline: true,
        python: PathBuf::from("python3"),
    }
}

fn script(path: &Path, body: &str) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_owned()
}

fn fake_nvcc(path: &Path, version: &str) -> PathBuf {
    script(path, &format!("echo 'Cuda compilation tools, release {version}, V{version}.77'"))
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

fn real_pins() -> pins::Pins {
    pins::parse(&read("third_party/pins.toml")).unwrap()
}

fn arch(name: &str) -> Arch {
    archs::parse(name).unwrap()[0]
}

fn one_sentence(text: &str) -> bool {
    !text.contains('\n') && !text.ends_with('.') && text.len() < 600
}

// Architectures.

#[test]
fn arch_lists_are_read_and_unknown_names_refused() {
    let names = |list: &str| archs::parse(list).unwrap().iter().map(Arch::to_string).collect::<Vec<_>>();
    assert_eq!(names("none"), Vec::<String>::new());
    assert_eq!(names("120a, sm_90a,90"), ["90a", "120a"]);
    assert_eq!(names("121f,compute_103a,89"), ["89", "103a", "121a"]);
    for wrong in ["90b", "75", "", "gpu", "12.0"] {
        let error = archs::parse(wrong).unwrap_err();
        assert!(error.contains("MOEBIUS_ARCHS") && one_sentence(&error), "{error}");
    }
}

#[test]
fn family_targets_are_used_where_the_toolkit_has_them() {
    let target = |name: &str, nvcc| arch(name).target(nvcc).as_str().to_owned();
    assert_eq!(target("90a", (13, 0)), "90a");
    assert_eq!(target("120a", (13, 0)), "120f");
    assert_eq!(target("121a", (12, 9)), "120f");
    assert_eq!(target("120a", (12, 8)), "120a");
    assert_eq!(target("103a", (13, 0)), "100f");
    assert_eq!(target("86", (13, 0)), "86");
    assert_eq!(arch("90a").target((13, 0)).gencode(), "arch=compute_90a,code=sm_90a");
}

// Settings.

#[test]
fn settings_come_from_the_environment() {
    let read = |pairs: &'static [(&str, &str)]| {
        Settings::read(move |name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()), Path::new("/out"))
    };
    assert_eq!(read(&[]).unwrap().cache_dir, Path::new("/out/cache"));
    assert_eq!(read(&[("HOME", "/h")]).unwrap().cache_dir, Path::new("/h/.cache/moebius"));
    assert_eq!(read(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]).unwrap().cache_dir, Path::new("/x/moebius"));
    assert_eq!(read(&[("XDG_CACHE_HOME", "/x"), ("MOEBIUS_CACHE_DIR", "/m")]).unwrap().cache_dir, Path::new("/m"));
    assert!(read(&[("CARGO_NET_OFFLINE", "true")]).unwrap().offline);
    assert!(!read(&[("MOEBIUS_OFFLINE", "0")]).unwrap().offline);
    assert_eq!(read(&[("MOEBIUS_KERNELS", "full")]).unwrap().kernels, KernelSet::Full);
    for wrong in [&[("MOEBIUS_KERNELS", "all")] as &[_], &[("MOEBIUS_JOBS", "0")], &[("MOEBIUS_JOBS", "many")]] {
        let error = read(wrong).unwrap_err();
        assert!(error.contains(wrong[0].0) && error.contains(wrong[0].1), "{error}");
    }
}

// The toolkit.

#[test]
fn no_nvcc_and_offline_says_what_to_set() {
    let dir = TempDir::new().unwrap();
    let error = toolkit::find(&settings(dir.path()), &[arch("90a")], None, &real_pins()).unwrap_err();
    assert!(
        error.contains("offline") && error.contains("CUDA_HOME") && error.contains("MOEBIUS_ARCHS=none"),
        "{error}"
    );
    assert!(one_sentence(&error), "{error}");
}

#[test]
fn an_nvcc_too_old_for_an_arch_is_named_with_what_it_needs() {
    let dir = TempDir::new().unwrap();
    fake_nvcc(&dir.path().join("cuda/bin/nvcc"), "12.4");
    let settings = Settings { cuda_homes: vec![dir.path().join("cuda")], ..settings(dir.path()) };
    let error = toolkit::find(&settings, &[arch("90a"), arch("120a")], None, &real_pins()).unwrap_err();
    assert!(error.contains("12.4.77") && error.contains("120a") && error.contains("12.8"), "{error}");
    assert!(error.contains("CUDA_HOME") && one_sentence(&error), "{error}");
    // The same compiler is new enough for Hopper.
    let (found, note) = toolkit::find(&settings, &[arch("90a")], None, &real_pins()).unwrap();
    assert_eq!((found.version, found.full_version.as_str(), note), ((12, 4), "12.4.77", None));
}

#[test]
fn toolkits_are_tried_in_the_documented_order() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    fake_nvcc(&at("a/bin/nvcc"), "12.9");
    fake_nvcc(&at("b/bin/nvcc"), "13.0");
    fake_nvcc(&at("c/nvcc"), "13.1");
    fake_nvcc(&at("d/bin/nvcc"), "13.2");
    let mut settings = Settings { system_cuda: at("d"), ..settings(dir.path()) };
    let version = |settings: &Settings| toolkit::find(settings, &[arch("120a")], None, &real_pins()).unwrap().0.version;
    assert_eq!(version(&settings), (13, 2));
    settings.path = vec![at("empty"), at("c")];
    assert_eq!(version(&settings), (13, 1));
    settings.cuda_homes = vec![at("without-nvcc"), at("b")];
    assert_eq!(version(&settings), (13, 0));
    settings.nvcc = Some(at("a/bin/nvcc"));
    assert_eq!(version(&settings), (12, 9));
    // One that is too old is passed over.
    fake_nvcc(&at("a/bin/nvcc"), "12.0");
    assert_eq!(version(&settings), (13, 0));
}

#[test]
fn a_wrong_nvcc_variable_is_not_passed_over() {
    let dir = TempDir::new().unwrap();
    let missing = Settings { nvcc: Some(dir.path().join("nvcc")), ..settings(dir.path()) };
    let error = toolkit::find(&missing, &[arch("90a")], None, &real_pins()).unwrap_err();
    assert!(error.starts_with("NVCC is ") && error.contains("not a file"), "{error}");
    let other = Settings { nvcc: Some(script(&dir.path().join("gcc"), "echo 'gcc 12'")), ..settings(dir.path()) };
    let error = toolkit::find(&other, &[arch("90a")], None, &real_pins()).unwrap_err();
    assert!(error.starts_with("NVCC is ") && error.contains("does not say its version"), "{error}");
}

#[test]
fn an_old_driver_is_told_before_anything_is_fetched() {
    let dir = TempDir::new().unwrap();
    let driver = Driver { cuda: (12, 8), capabilities: vec![(12, 0)] };
    let error = toolkit::find(&settings(dir.path()), &[arch("120a")], Some(&driver), &real_pins()).unwrap_err();
    assert!(error.contains("12.8") && error.contains("580") && error.contains("CUDA_HOME"), "{error}");
    let driver = Driver { cuda: (13, 0), ..driver };
    let error = toolkit::find(&settings(dir.path()), &[arch("120a")], Some(&driver), &real_pins()).unwrap_err();
    assert!(error.contains("offline"), "{error}");
}

// CUTLASS.

#[test]
fn a_cutlass_dir_without_cutlass_is_named() {
    let dir = TempDir::new().unwrap();
    let settings = Settings { cutlass_dir: Some(dir.path().join("elsewhere")), ..settings(dir.path()) };
    let error = headers::find(&settings, &[headers::Need::Cutlass], &real_pins()).unwrap_err();
    assert!(error.starts_with("CUTLASS_DIR is ") && error.contains("elsewhere") && one_sentence(&error), "{error}");
}

#[test]
fn a_checkout_wins_and_its_content_is_its_identity() {
    let dir = TempDir::new().unwrap();
    let include = dir.path().join("cutlass/include/cutlass");
    std::fs::create_dir_all(&include).unwrap();
    let version = "#define CUTLASS_MAJOR 4\n#define CUTLASS_MINOR 6\n#define CUTLASS_PATCH 1\n";
    std::fs::write(include.join("version.h"), version).unwrap();
    let settings = Settings { cutlass_dir: Some(dir.path().join("cutlass")), ..settings(dir.path()) };
    let before = headers::find(&settings, &[headers::Need::Cutlass], &real_pins()).unwrap();
    assert_eq!(before.cutlass.as_deref(), Some("4.6.1"));
    std::fs::write(include.join("gemm.h"), "// new").unwrap();
    let after = headers::find(&settings, &[headers::Need::Cutlass], &real_pins()).unwrap();
    let needs = [headers::Need::Cutlass];
    assert_ne!(before.identity(&needs), after.identity(&needs));
    assert_eq!(before.identity(&[]), "", "a kernel without needs does not depend on the sets");
}

#[test]
fn without_architectures_nothing_of_cuda_can_stop_the_build() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("missing");
    let settings = Settings {
        archs: Some("none".to_owned()),
        nvcc: Some(missing.clone()),
        cutlass_dir: Some(missing.clone()),
        python: missing,
        ..settings(dir.path())
    };
    let outcome = cuda::run(repository(), dir.path(), &settings).unwrap();
    assert!(outcome.cudart_dir.is_none() && outcome.targets.is_empty());
    assert!(dir.path().join("units.rs").is_file());
}

#[test]
fn no_cutlass_and_offline_says_what_to_set() {
    let dir = TempDir::new().unwrap();
    let error = headers::find(&settings(dir.path()), &[headers::Need::Cutlass], &real_pins()).unwrap_err();
    assert!(error.contains("offline") && error.contains("CUTLASS_DIR") && one_sentence(&error), "{error}");
    assert!(headers::find(&settings(dir.path()), &[], &real_pins()).unwrap().folders.is_empty());
}

// Fetching.

/// A wheel with one program, and a Python whose pip sees that wheel alone.
fn local_index(dir: &Path) -> (PathBuf, String) {
    let wheels = dir.join("index");
    std::fs::create_dir_all(&wheels).unwrap();
    let make = "import sys, zipfile, hashlib\n\
                path = sys.argv[1] + '/moebius_fetch_test-1.0-py3-none-any.whl'\n\
                w = zipfile.ZipFile(path, 'w')\n\
                w.writestr('nvidia/cu13/bin/tool', '#!/bin/sh\\n')\n\
                w.writestr('other/file', 'not wanted')\n\
                w.writestr('moebius_fetch_test-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: moebius-fetch-test\\nVersion: 1.0\\n')\n\
                w.writestr('moebius_fetch_test-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
                w.writestr('moebius_fetch_test-1.0.dist-info/RECORD', '')\n\
                w.close()\n\
                print(hashlib.sha256(open(path, 'rb').read()).hexdigest())";
    let made = std::process::Command::new("python3").args(["-c", make]).arg(&wheels).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let python = script(
        &dir.join("python"),
        &format!("PIP_CONFIG_FILE=/dev/null PIP_NO_INDEX=1 PIP_FIND_LINKS={} exec python3 \"$@\"", wheels.display()),
    );
    (python, String::from_utf8(made.stdout).unwrap().trim().to_owned())
}

fn test_set(hash: &str) -> pins::Set {
    pins::Set {
        version: "1.0".to_owned(),
        least_driver_cuda: None,
        packages: vec![pins::Package {
            name: "moebius-fetch-test".to_owned(),
            version: "1.0".to_owned(),
            sha256: vec![hash.to_owned()],
        }],
        unpack: vec![pins::Unpack { from: "nvidia/cu13/".to_owned(), to: String::new() }],
    }
}

#[test]
fn a_pinned_package_is_fetched_unpacked_and_found_again_offline() {
    let dir = TempDir::new().unwrap();
    let (python, hash) = local_index(dir.path());
    let online = Settings { offline: false, python, ..settings(dir.path()) };
    let folder = fetch::set(&test_set(&hash), "the test set", "do nothing", &online).unwrap();
    let mode = std::fs::metadata(folder.join("bin/tool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "programs can be run");
    assert!(!folder.join("other").exists() && !folder.join("file").exists());
    assert_eq!(fetch::set(&test_set(&hash), "the test set", "do nothing", &settings(dir.path())), Ok(folder));
}

#[test]
fn a_package_with_another_hash_is_refused_and_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let (python, _) = local_index(dir.path());
    let online = Settings { offline: false, python, ..settings(dir.path()) };
    let error = fetch::set(&test_set(&"0".repeat(64)), "the test set", "set CUDA_HOME", &online).unwrap_err();
    assert!(
        error.contains("does not have the hash of third_party/pins.toml") && error.contains("set CUDA_HOME"),
        "{error}"
    );
    assert!(one_sentence(&error), "{error}");
    assert_eq!(std::fs::read_dir(dir.path().join("cache/fetched")).unwrap().count(), 0);
}

#[test]
fn a_full_disk_a_missing_index_and_a_missing_python_are_told_apart() {
    let dir = TempDir::new().unwrap();
    let fetched = |body: &str| {
        let python = script(&dir.path().join("python"), body);
        fetch::set(
            &test_set("1"),
            "the test set",
            "set X",
            &Settings { offline: false, python, ..settings(dir.path()) },
        )
        .unwrap_err()
    };
    let full = fetched("echo 'ERROR: Could not install: [Errno 28] No space left on device' >&2; exit 1");
    assert!(full.contains("no space left") && full.contains("MOEBIUS_CACHE_DIR"), "{full}");
    let lost = fetched("echo 'WARNING: Retrying after NewConnectionError' >&2; echo 'ERROR: No matching' >&2; exit 1");
    assert!(lost.contains("could not reach") && lost.contains("set X"), "{lost}");
    let no_pip = fetched("echo 'python3: No module named pip' >&2; exit 1");
    assert!(no_pip.contains("has no pip"), "{no_pip}");
    let none = Settings { offline: false, python: dir.path().join("nothing"), ..settings(dir.path()) };
    let none = fetch::set(&test_set("1"), "the test set", "set X", &none).unwrap_err();
    assert!(none.contains("was not found") && none.contains("set X"), "{none}");
    assert!([full, lost, no_pip, none].iter().all(|e| one_sentence(e)));
}

// kernels.toml.

fn real_units() -> Vec<Unit> {
    manifest::parse(&read("kernels.toml")).unwrap()
}

#[test]
fn the_kernel_list_is_sound() {
    let units = real_units();
    let abi = read("csrc/abi.h");
    for unit in &units {
        assert!(repository().join("csrc").join(&unit.template).is_file(), "{}: no csrc/{}", unit.id, unit.template);
        let scheme = format!("#define MOEBIUS_{} ", unit.scheme().to_uppercase().replace('-', "_"));
        assert!(abi.contains(&scheme), "{}: {scheme}is not in abi.h", unit.id);
    }
    let default = units.iter().filter(|u| u.in_default_set && [90, 120].contains(&u.chip)).count();
    assert!(default > 0 && default <= 40, "{default} kernels in the default set");
}

#[test]
fn mistakes_in_the_kernel_list_are_named() {
    let family = |id: &str, units: &str| {
        format!("[[family]]\nid = \"{id}\"\nchip = 90\ntemplate = \"t.cuh\"\nunits = [{units}]\n")
    };
    let error = |text: &str| manifest::parse(text).unwrap_err();
    let twice = "{ tile = [64, 16, 64] }, { tile = [64, 16, 64] }";
    assert!(error(&family("a/sm90/bf16", twice)).contains("a/sm90/bf16/64x16x64 twice"));
    assert!(error(&family("a/sm90", "{ tile = [1, 1, 1] }")).contains("family/arch/scheme"));
    assert!(error(&family("a/sm90/bf16", "{ tile = [1, 1, 1], schedule = \"fast\" }")).contains("`fast`"));
    assert!(error(&family("a/sm90/bf16", "{ tiles = [1, 1, 1] }")).contains("tiles"));
    let tagged = "{ tile = [64, 16, 64] }, { tile = [64, 16, 64], tag = \"b\", swap = true, define = { STAGES = 3 } }";
    let units = manifest::parse(&family("a/sm90/bf16", tagged)).unwrap();
    assert_eq!(units[1].id, "a/sm90/bf16/64x16x64-swap-stages3-b");
    assert!(units[1].source("v").contains("#define MOEBIUS_STAGES 3\n"));
}

// Compiling.

/// An nvcc that makes the files that the real one makes, counts its runs and fails for sources that hold `broken`.
fn pretending_nvcc(dir: &Path) -> toolkit::Toolkit {
    let body = format!(
        r#"echo run >> {runs}
while [ $# -gt 0 ]; do
  case "$1" in
    --keep-dir) keep=$2; shift ;;
    -o) out=$2; shift ;;
    *.cu) source=$1 ;;
  esac
  shift
done
if grep -q 'TILE_M 13' "$source"; then
  echo 'x.cu(1): error: static assertion failed with "no tile of 13"' >&2
  exit 1
fi
cp "$source" "$out"
cp "$source" "$keep/$(basename "$source" .cu).cubin"
echo "ptxas info    : Compiling entry function 'k' for 'sm_90a'"
echo "ptxas info    : Used 90 registers, used 1 barriers, 1024 bytes smem"
"#,
        runs = dir.join("runs").display()
    );
    let nvcc = script(&dir.join("toolkit/bin/nvcc"), &body);
    toolkit::Toolkit { nvcc, root: dir.join("toolkit"), version: (13, 0), full_version: "13.0.88".to_owned() }
}

fn runs(dir: &Path) -> usize {
    std::fs::read_to_string(dir.join("runs")).map_or(0, |text| text.lines().count())
}

#[test]
fn only_what_changed_is_compiled_again() {
    let dir = TempDir::new().unwrap();
    let toolkit = pretending_nvcc(dir.path());
    let csrc = dir.path().join("csrc");
    std::fs::create_dir_all(csrc.join("common")).unwrap();
    std::fs::write(csrc.join("a.cuh"), "#include \"common/shared.cuh\"\n#include <vector>\n").unwrap();
    std::fs::write(csrc.join("b.cuh"), "// b\n").unwrap();
    std::fs::write(csrc.join("common/shared.cuh"), "// shared\n").unwrap();
    let headers = headers::Headers::default();
    let compile_all = |tile: u32| {
        let text = format!(
            "[[family]]\nid = \"a/sm90/bf16\"\nchip = 90\ntemplate = \"a.cuh\"\nunits = [{{ tile = [{tile}, 8, 8] }}, {{ tile = [2, 8, 8] }}]\n\
             [[family]]\nid = \"b/sm90/bf16\"\nchip = 90\ntemplate = \"b.cuh\"\nunits = [{{ tile = [1, 8, 8] }}]\n"
        );
        let units = manifest::parse(&text).unwrap();
        let compiler = compile::Compiler {
            toolkit: &toolkit,
            headers: &headers,
            csrc: &csrc,
            cache_dir: &dir.path().join("cache"),
            host_compiler: "g++ 12".to_owned(),
        };
        let targets = [arch("90a").target((13, 0))];
        jobs::run(&units, 2, |_, unit| compiler.compile(unit, &targets))
    };
    let first = compile_all(1).unwrap();
    assert_eq!(runs(dir.path()), 3);
    assert!(first.iter().all(|unit| unit.fresh && unit.object.is_file()));
    let image = &first[0].facts.images[0];
    assert_eq!((image.target.as_str(), image.registers, image.static_shared), ("90a", 90, 1024));
    // Nothing changed: nothing compiled.
    assert!(compile_all(1).unwrap().iter().all(|unit| !unit.fresh));
    assert_eq!(runs(dir.path()), 3);
    // One line of kernels.toml: one unit.
    compile_all(3).unwrap();
    assert_eq!(runs(dir.path()), 4);
    // A header: the units that include it, directly or not.
    std::fs::write(csrc.join("common/shared.cuh"), "// changed\n").unwrap();
    compile_all(3).unwrap();
    assert_eq!(runs(dir.path()), 6);
    // A kernel that does not compile fails the build by name, with the compiler's words.
    let error = compile_all(13).unwrap_err();
    assert!(error.contains("a/sm90/bf16/13x8x8") && error.contains("no tile of 13"), "{error}");
    assert!(
        std::fs::read_dir(dir.path().join("cache/units"))
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with("partial") })
    );
}

#[test]
fn machine_code_without_the_wanted_instruction_fails_the_build() {
    let dir = TempDir::new().unwrap();
    let toolkit = pretending_nvcc(dir.path());
    script(&dir.path().join("toolkit/bin/nvdisasm"), "echo '  /*0000*/ HMMA.16816.F32 R4, R4, R8 ;'");
    let csrc = dir.path().join("csrc");
    std::fs::create_dir_all(&csrc).unwrap();
    std::fs::write(csrc.join("a.cuh"), "// a\n").unwrap();
    let text = "[[family]]\nid = \"a/sm90/bf16\"\nchip = 90\ntemplate = \"a.cuh\"\nsass = \"HGMMA\"\nunits = [{ tile = [1, 8, 8] }]\n";
    let unit = &manifest::parse(text).unwrap()[0];
    let headers = headers::Headers::default();
    let compiler = compile::Compiler {
        toolkit: &toolkit,
        headers: &headers,
        csrc: &csrc,
        cache_dir: &dir.path().join("cache"),
        host_compiler: String::new(),
    };
    let error = compiler.compile(unit, &[arch("90a").target((13, 0))]).unwrap_err();
    assert!(error.contains("a/sm90/bf16/1x8x8") && error.contains("holds no HGMMA"), "{error}");
}

#[test]
fn jobs_are_bounded_by_cores_and_memory() {
    let gib = 1u64 << 30;
    assert_eq!(jobs::limit(None, 16, 64 * gib), 16);
    assert_eq!(jobs::limit(None, 16, 12 * gib), 4);
    assert_eq!(jobs::limit(None, 2, 12 * gib), 2);
    assert_eq!(jobs::limit(None, 8, gib), 1);
    assert_eq!(jobs::limit(Some(3), 1, gib), 3);
    assert!(jobs::free_memory() > 0);
}

// What compilers say.

#[test]
fn usage_is_the_heaviest_kernel_of_each_target() {
    let log = "ptxas info    : Compiling entry function 'small' for 'sm_90a'\n\
               ptxas info    : Function properties for small\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
               ptxas info    : Used 18 registers, used 0 barriers\n\
               ptxas info    : Compiling entry function 'large' for 'sm_90a'\n\
               ptxas info    : Function properties for large\n    96 bytes stack frame, 120 bytes spill stores, 88 bytes spill loads\n\
               ptxas info    : Used 168 registers, used 2 barriers, 96 bytes cumulative stack size, 64 bytes smem\n\
               ptxas info    : Compiling entry function 'large' for 'sm_120f'\n\
               ptxas info    : Used 128 registers, used 2 barriers\n";
    let usage = sass::usage(log);
    let expected = sass::Usage { registers: 168, spill_stores: 120, spill_loads: 88, stack: 96, static_shared: 64 };
    assert_eq!(usage["90a"], expected);
    assert_eq!(usage["120f"].registers, 128);
}

#[test]
fn matrix_instructions_are_counted_by_mnemonic() {
    let counts = sass::count_matrix_instructions(
        "        /*0010*/                   HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8], R24 ;\n\
         .L_x_1: OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X R4, R8 ;\n        /*00*/ @P0 QMMA.16832.F32 R4 ;\n QMMA.16832 R1 ;\n // MMA none\n",
    );
    assert_eq!(
        counts.iter().map(|(k, v)| (k.as_str(), *v)).collect::<Vec<_>>(),
        [("HGMMA", 1), ("OMMA", 1), ("QMMA", 2)]
    );
}

#[test]
fn debug_code_is_told_from_line_tables() {
    assert!(!sass::has_debug_code(b"\0.debug_line\0.nv_debug_line_sass\0.debug_frame\0"));
    assert!(sass::has_debug_code(b"\0.debug_line\0.debug_info\0"));
}
