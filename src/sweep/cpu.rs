//! Sweeps on the processor.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::time::Instant;

use super::rows;
use super::schemes::weights_scheme;
use super::{Control, Step, SweepSettings};
use crate::kernel::{CpuCall, CpuKernel, Engine, Kernel, Scheme};
use crate::measure::{Contender, Hooks, Outcome, Sample, Settings, Subject, SubjectError, WallClock, sample};
use crate::operands::{
    ActivationGlobals, ActivationSource, Activations, SlotLimits, SlotPlan, SlotRequest, WeightSource, Weights,
    bytes::{layer_weight_bytes, weight_bytes_per_expert},
    generate_activations, generate_weights,
};
use crate::record::{Conditions, L2, Launch, Status};
use crate::shape::{Case, GemmShape};
use crate::verify::{
    Accumulation, Columns, GuardedOutput, Judgement, Reference, SampledColumns, judge_cpu, quantisation_error,
    references, verify_cpu,
};

/// Columns of each expert from which a scheme's quantisation error is estimated.
const ERROR_COLUMNS: usize = 4;

/// Runs cases on the processor and keeps weights from one to the next.
pub struct CpuRig {
    settings: SweepSettings,
    cache_bytes: u64,
    weights: HashMap<u32, Rc<Weights>>,
    /// What the kept weights are of.
    weights_of: Option<(GemmShape, Scheme)>,
}

/// One case with its operands in memory.
struct Loaded {
    case: Case,
    plan: SlotPlan,
    layers: Vec<Rc<Weights>>,
    offsets: Vec<Vec<u32>>,
    activations: HashMap<Scheme, Rc<Activations>>,
    /// Calls made, by all kernels together: each takes the next slot, so that the cache is as cold for one kernel after
    /// another as for one alone.
    calls: Cell<usize>,
}

impl Loaded {
    fn call<'a>(&'a self, slot: usize, activations: &'a Activations) -> CpuCall<'a> {
        CpuCall {
            shape: self.case.shape,
            offsets: &self.offsets[slot],
            weights: &self.layers[self.plan.layer(slot) as usize],
            activations,
        }
    }

    fn calls<'a>(&'a self, activations: &'a Activations) -> Vec<CpuCall<'a>> {
        (0..self.plan.len()).map(|slot| self.call(slot, activations)).collect()
    }
}

/// A kernel on the slots of a case.
struct CpuSubject {
    kernel: Rc<Box<dyn Kernel>>,
    loaded: Rc<Loaded>,
    activations: Rc<Activations>,
    out: Rc<RefCell<GuardedOutput>>,
    last_slot: Rc<Cell<usize>>,
}

/// The CPU side of a kernel; those of other devices have none.
fn cpu_side(kernel: &dyn Kernel) -> Option<&dyn CpuKernel> {
    match kernel.engine() {
        Engine::Cpu(kernel) => Some(kernel),
        Engine::Cuda(_) | Engine::Retargeted(_) | Engine::NotRetargetable(_) => None,
    }
}

impl Subject for CpuSubject {
    fn sample(&mut self) -> Result<Sample, SubjectError> {
        let Some(kernel) = cpu_side(self.kernel.as_ref().as_ref()) else {
            return Err(SubjectError("the kernel does not run on the processor".to_owned()));
        };
        let slot = self.loaded.calls.get() % self.loaded.plan.len();
        self.loaded.calls.set(self.loaded.calls.get() + 1);
        self.last_slot.set(slot);
        let call = self.loaded.call(slot, &self.activations);
        let mut out = self.out.borrow_mut();
        let start = Instant::now();
        kernel.run(&call, out.output_mut());
        Ok(Sample { ns_per_call: start.elapsed().as_nanos() as f64, calls: 1, throttled: false })
    }
}

/// A verified kernel, ready to be timed.
struct Ready {
    info: usize,
    subject: CpuSubject,
    judgement: Judgement,
}

/// The arithmetic of the CPU kernels.
const ACCUMULATION: Accumulation = Accumulation::F32;

impl CpuRig {
    /// A rig for a processor with `cache_bytes` of last-level cache.
    pub fn new(settings: SweepSettings, cache_bytes: u64) -> Self {
        CpuRig { settings, cache_bytes, weights: HashMap::new(), weights_of: None }
    }

    /// Verifies and times `kernels` over `cases`, handing over a row for each pair.
    pub fn sweep(&mut self, cases: &[Case], kernels: Vec<Box<dyn Kernel>>, control: &mut Control<'_>) {
        let kernels: Vec<Rc<Box<dyn Kernel>>> = kernels.into_iter().map(Rc::new).collect();
        for (number, case) in cases.iter().enumerate() {
            if control.cancelled() {
                return;
            }
            (control.step)(Step::Case(number + 1, cases.len(), case));
            self.case(case, &kernels, control);
        }
    }

    fn conditions(&self, plan: Option<&SlotPlan>) -> Conditions {
        Conditions { l2: self.settings.l2, launch: Launch::Host, pdl: false, plan: plan.map(SlotPlan::record) }
    }

    fn case(&mut self, case: &Case, kernels: &[Rc<Box<dyn Kernel>>], control: &mut Control<'_>) {
        let refused = |kernel: &Rc<Box<dyn Kernel>>| {
            case.unsupported().map(str::to_owned).or_else(|| kernel.supports(case).err())
        };
        let mut groups: Vec<(Scheme, Vec<usize>)> = Vec::new();
        for (at, kernel) in kernels.iter().enumerate() {
            if let Some(reason) = refused(kernel) {
                let conditions = self.conditions(None);
                (control.row)(rows::plain(case, kernel.info(), conditions, Status::Unsupported, Some(reason)));
                continue;
            }
            let key = weights_scheme(kernel.info().scheme);
            match groups.iter_mut().find(|(scheme, _)| *scheme == key) {
                Some((_, members)) => members.push(at),
                None => groups.push((key, vec![at])),
            }
        }
        for (scheme, members) in groups {
            if control.cancelled() {
                return;
            }
            let members: Vec<Rc<Box<dyn Kernel>>> = members.iter().map(|&at| kernels[at].clone()).collect();
            match self.load(case, scheme, &members, control) {
                Ok(loaded) => self.run(Rc::new(loaded), &members, control),
                Err(reason) => {
                    for kernel in &members {
                        let conditions = self.conditions(None);
                        (control.row)(rows::plain(
                            case,
                            kernel.info(),
                            conditions,
                            Status::Failed,
                            Some(reason.clone()),
                        ));
                    }
                }
            }
        }
    }

    /// Makes the operands of a case.
    fn load(
        &mut self,
        case: &Case,
        scheme: Scheme,
        kernels: &[Rc<Box<dyn Kernel>>],
        control: &mut Control<'_>,
    ) -> Result<Loaded, String> {
        let GemmShape { n, k, .. } = case.shape;
        let plan = SlotPlan::new(&SlotRequest {
            rows: &case.rows,
            bytes_per_expert: weight_bytes_per_expert(scheme, n, k),
            cache_bytes: self.cache_bytes,
            l2: self.settings.l2,
            seed: case.seed,
            limits: SlotLimits::within(self.settings.memory_bytes, layer_weight_bytes(scheme, case.shape)),
        })
        .map_err(|e| e.to_string())?;
        if self.weights_of != Some((case.shape, scheme)) {
            self.weights.clear();
            self.weights_of = Some((case.shape, scheme));
        }
        let mut layers = Vec::new();
        for layer in 0..plan.layers() {
            let made = match self.weights.entry(layer) {
                Entry::Occupied(kept) => kept.get().clone(),
                Entry::Vacant(place) => {
                    (control.step)(Step::Doing("making weights"));
                    let made = generate_weights(case.shape, scheme, case.seed, layer).map_err(|e| e.to_string())?;
                    place.insert(Rc::new(made)).clone()
                }
            };
            layers.push(made);
        }
        let rows = u32::try_from(case.total_rows()).map_err(|_| format!("{} rows are too many", case.total_rows()))?;
        let mut activations = HashMap::new();
        for kernel in kernels {
            let scheme = kernel.info().scheme;
            if let Entry::Vacant(place) = activations.entry(scheme) {
                let made = generate_activations(rows, k, scheme, case.seed, ActivationGlobals::PerLayer)
                    .map_err(|e| e.to_string())?;
                place.insert(Rc::new(made));
            }
        }
        let offsets = (0..plan.len()).map(|slot| plan.offsets(slot)).collect();
        Ok(Loaded { case: case.clone(), plan, layers, offsets, activations, calls: Cell::new(0) })
    }

    fn run(&self, loaded: Rc<Loaded>, kernels: &[Rc<Box<dyn Kernel>>], control: &mut Control<'_>) {
        let mut ready = Vec::new();
        let mut errors = HashMap::new();
        let mut schemes: Vec<Scheme> = kernels.iter().map(|kernel| kernel.info().scheme).collect();
        schemes.dedup();
        let mut first_references = HashMap::new();
        for scheme in schemes {
            let Some(activations) = loaded.activations.get(&scheme).cloned() else { continue };
            (control.step)(Step::Doing("computing the reference"));
            let calls = loaded.calls(&activations);
            let made = references(&calls, loaded.case.seed).map_err(|e| e.to_string());
            let mut made = match made {
                Ok(made) => made,
                Err(reason) => {
                    for kernel in kernels.iter().filter(|kernel| kernel.info().scheme == scheme) {
                        self.emit_failed(&loaded, kernel, &reason, control);
                    }
                    continue;
                }
            };
            errors.insert(scheme, scheme_error(&loaded, &activations));
            for (at, kernel) in kernels.iter().enumerate().filter(|(_, kernel)| kernel.info().scheme == scheme) {
                if control.cancelled() {
                    return;
                }
                let Some(engine) = cpu_side(kernel.as_ref().as_ref()) else { continue };
                (control.step)(Step::Doing(&format!("verifying {}", kernel.info().id)));
                let mut out = GuardedOutput::new(loaded.case.total_rows() as usize, loaded.case.shape.n);
                let judgement = verify_cpu(engine, &calls, &made, ACCUMULATION, &mut out);
                if !judgement.is_right() || !self.settings.timing {
                    self.emit(&loaded, kernel, &judgement, errors.get(&scheme).copied().flatten(), None, control);
                    continue;
                }
                // What timing leaves is judged again; an output left from verification must not pass for it.
                out.poison();
                let subject = CpuSubject {
                    kernel: kernel.clone(),
                    loaded: loaded.clone(),
                    activations: activations.clone(),
                    out: Rc::new(RefCell::new(out)),
                    last_slot: Rc::new(Cell::new(0)),
                };
                ready.push(Ready { info: at, subject, judgement });
            }
            // The full reference of the first slot is the large one; the last call of a kernel may have been on any slot.
            made.truncate(loaded.plan.len());
            first_references.insert(scheme, made);
        }
        if ready.is_empty() {
            return;
        }
        let outcomes = self.time(&mut ready, kernels, control);
        for (ready, outcome) in ready.into_iter().zip(outcomes) {
            let kernel = &kernels[ready.info];
            let scheme = kernel.info().scheme;
            let mut judgement = ready.judgement;
            if let (Some(references), false) = (first_references.get(&scheme), outcome.samples_ns.is_empty()) {
                let slot = ready.subject.last_slot.get();
                let call = loaded.call(slot, &ready.subject.activations);
                if let Some(reference) = references.get(slot) {
                    let after = judge_cpu(&ready.subject.out.borrow(), &call, reference, ACCUMULATION).in_slot(slot);
                    judgement = judgement.merge(after);
                }
            }
            let error = errors.get(&scheme).copied().flatten();
            self.emit(&loaded, kernel, &judgement, error, Some(&outcome), control);
        }
    }

    fn time(&self, ready: &mut [Ready], kernels: &[Rc<Box<dyn Kernel>>], control: &mut Control<'_>) -> Vec<Outcome> {
        let mut settings = Settings::cpu(self.settings.seed);
        settings.exhaustive = self.settings.exhaustive;
        if let Some(precision) = self.settings.precision {
            settings.precision = precision;
            settings.verdict_precision = precision;
        }
        if let Some(limit) = self.settings.time_limit {
            settings.time_limit = limit;
        }
        let mut contenders: Vec<Contender<'_>> = ready
            .iter_mut()
            .map(|ready| {
                let info = kernels[ready.info].info();
                let class = Scheme::ALL.iter().position(|&s| s == info.scheme).unwrap_or_default() as u32;
                Contender { subject: &mut ready.subject, class, eligible: !info.needs_host_counts }
            })
            .collect();
        let clock = WallClock::start();
        let step = &mut control.step;
        let mut progress = |p: &crate::measure::Progress| step(Step::Sampling(p));
        let mut hooks = Hooks { cancel: Some(control.cancel), progress: Some(&mut progress), ..Hooks::new(&clock) };
        sample(&mut contenders, &settings, &mut hooks).outcomes
    }

    fn emit_failed(&self, loaded: &Loaded, kernel: &Rc<Box<dyn Kernel>>, reason: &str, control: &mut Control<'_>) {
        let conditions = self.conditions(Some(&loaded.plan));
        let row = rows::plain(&loaded.case, kernel.info(), conditions, Status::Failed, Some(reason.to_owned()));
        (control.row)(row);
    }

    fn emit(
        &self,
        loaded: &Loaded,
        kernel: &Rc<Box<dyn Kernel>>,
        judgement: &Judgement,
        error: Option<f64>,
        outcome: Option<&Outcome>,
        control: &mut Control<'_>,
    ) {
        let status = if judgement.is_right() { Status::Ok } else { Status::Wrong };
        let conditions = self.conditions(Some(&loaded.plan));
        let mut row = rows::plain(&loaded.case, kernel.info(), conditions, status, judgement.failure.clone());
        row.verify = Some(rows::verified(judgement, error));
        if let (Some(outcome), Status::Ok) = (outcome, status) {
            rows::enter_time(&mut row, outcome);
        }
        if self.settings.l2 == L2::Cold && !loaded.plan.is_cold() {
            row.warnings.push(rows::warm_warning(&loaded.plan, self.cache_bytes));
        }
        (control.row)(row);
    }
}

/// What the scheme's number formats cost against the bf16 layer, from sampled columns of the first slot. `None` when it
/// cannot be had, which no row depends on.
fn scheme_error(loaded: &Loaded, activations: &Activations) -> Option<f64> {
    let (case, call) = (&loaded.case, loaded.call(0, activations));
    let columns = SampledColumns::draw(case.shape, ERROR_COLUMNS, case.seed);
    let scheme =
        Reference::compute_columns(case.shape, call.offsets, call.weights, call.activations, columns.clone()).ok()?;
    let weights = WeightSource::new(case.seed, loaded.plan.layer(0), case.shape);
    let source = ActivationSource::new(case.seed, case.shape.k);
    let widen = |line: &mut [f64], fill: &dyn Fn(&mut [f32])| {
        let mut narrow = vec![0f32; line.len()];
        fill(&mut narrow);
        for (wide, narrow) in line.iter_mut().zip(narrow) {
            *wide = f64::from(narrow);
        }
    };
    let exact = Reference::compute_with(
        case.shape,
        call.offsets,
        Columns::Sampled(columns),
        |expert, column, line: &mut [f64]| {
            for (k, value) in line.iter_mut().enumerate() {
                *value = weights.value(expert as u32, column as u32, k as u32).to_f64();
            }
        },
        |row, _, line: &mut [f64]| widen(line, &|out| source.fill_row(row as u32, &mut Vec::new(), out)),
    )
    .ok()?;
    quantisation_error(&scheme, &exact).ok()
}

/// A subject, or why there is none.
pub type CaseSubject = Result<Box<dyn Subject>, SubjectError>;

/// The subjects of one case for a benchmark runner: loaded, verified, in the order of `kernels`; for each that cannot be
/// timed the reason. Kernels with the same weights share them and take turns on the slots, those of the same scheme share
/// the reference.
///
/// # Errors
/// The operands or a reference could not be made.
pub fn cpu_subjects(
    rig: &mut CpuRig,
    case: &Case,
    kernels: &[Rc<Box<dyn Kernel>>],
) -> Result<Vec<CaseSubject>, SubjectError> {
    let refused =
        |kernel: &Rc<Box<dyn Kernel>>| case.unsupported().map(str::to_owned).or_else(|| kernel.supports(case).err());
    let refusals: Vec<Option<String>> = kernels.iter().map(refused).collect();
    let able: Vec<_> =
        kernels.iter().zip(&refusals).filter(|(_, refusal)| refusal.is_none()).map(|(k, _)| k.clone()).collect();
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let mut control = Control { cancel: &cancel, step: &mut |_| {}, row: &mut |_| {} };
    let mut loaded_of: HashMap<Scheme, Rc<Loaded>> = HashMap::new();
    let mut references_of: HashMap<Scheme, Vec<Reference>> = HashMap::new();
    let mut subjects: Vec<Result<Box<dyn Subject>, SubjectError>> = Vec::new();
    for (kernel, refusal) in kernels.iter().zip(refusals) {
        if let Some(reason) = refusal {
            subjects.push(Err(SubjectError(reason)));
            continue;
        }
        let scheme = kernel.info().scheme;
        let weights = weights_scheme(scheme);
        let loaded = match loaded_of.entry(weights) {
            Entry::Occupied(entry) => entry.get().clone(),
            Entry::Vacant(entry) => {
                let sharing = |other: &&Rc<Box<dyn Kernel>>| weights_scheme(other.info().scheme) == weights;
                let sharing: Vec<_> = able.iter().filter(sharing).cloned().collect();
                let loaded = rig.load(case, weights, &sharing, &mut control).map_err(SubjectError)?;
                entry.insert(Rc::new(loaded)).clone()
            }
        };
        let (Some(activations), Some(engine)) = (loaded.activations.get(&scheme), cpu_side(kernel.as_ref().as_ref()))
        else {
            subjects.push(Err(SubjectError("the kernel does not run on the processor".to_owned())));
            continue;
        };
        let calls = loaded.calls(activations);
        let references = match references_of.entry(scheme) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(references(&calls, case.seed).map_err(|e| SubjectError(e.to_string()))?)
            }
        };
        let mut out = GuardedOutput::new(case.total_rows() as usize, case.shape.n);
        subjects.push(match verify_cpu(engine, &calls, references, ACCUMULATION, &mut out).failure {
            Some(reason) => Err(SubjectError(format!("wrong answer: {reason}"))),
            None => Ok(Box::new(CpuSubject {
                kernel: kernel.clone(),
                activations: activations.clone(),
                loaded: loaded.clone(),
                out: Rc::new(RefCell::new(out)),
                last_slot: Rc::new(Cell::new(0)),
            })),
        });
    }
    Ok(subjects)
}
