//! Sweeps on a GPU.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use half::bf16;

use super::cuda_operands::{DeviceActivations, DeviceWeights, Output};
use super::rows;
use super::schemes::{accumulation, weights_scheme};
use super::{Control, Step, SweepSettings};
use crate::device::abi::moebius_shape;
use crate::device::cuda::{
    Addresses, Buffer, Cuda, DeviceError, Event, Graph, Parts, Plan, ReferenceTarget, Support, Unit, UnitError, capture,
};
use crate::device::nvml::Telemetry;
use crate::kernel::{Engine, Kernel, Scheme, abi_shape};
use crate::measure::{Contender, Hooks, Monitor, Outcome, Sample, Settings, Subject, SubjectError, WallClock, sample};
use crate::operands::{
    ActivationGlobals, SlotLimits, SlotPlan, SlotRequest,
    bytes::{layer_weight_bytes, weight_bytes_per_expert},
    generate_activations, generate_weights,
};
use crate::record::{Conditions, L2, Launch, Status};
use crate::shape::{Case, GemmShape};
use crate::verify::{Columns, Judgement, Reference, SampledColumns, cpu::SAMPLED_COLUMNS, guard, judge};

/// Calls of one sample at least: what lies before the first and after the last counts for little then.
const LEAST_CALLS: usize = 16;

/// Runs cases on a GPU and keeps weights from one to the next.
pub struct CudaRig<'a> {
    cuda: &'a Cuda,
    support: Support<'a>,
    settings: SweepSettings,
    telemetry: Option<Telemetry>,
    weights: HashMap<(Scheme, u32), Rc<DeviceWeights>>,
    /// Weights in a layout of their own, by layout word.
    packed: HashMap<(&'static str, Scheme, u32), Rc<Buffer>>,
    weights_of: Option<(GemmShape, u64)>,
}

/// A kernel on all slots of a case.
struct Prepared {
    plans: Vec<Plan>,
    /// What the plans point into.
    _workspaces: Vec<Buffer>,
    _packed_weights: Vec<Rc<Buffer>>,
    _packed_activations: Vec<Rc<Buffer>>,
}

/// The operands of one case for the kernels that share weights.
pub(super) struct Loaded {
    case: Case,
    scheme: Scheme,
    plan: SlotPlan,
    layers: Vec<Rc<DeviceWeights>>,
    offsets: Vec<Buffer>,
    host_offsets: Vec<Vec<u32>>,
    activations: HashMap<Scheme, DeviceActivations>,
}

/// A verified kernel, ready to be timed.
pub(super) struct Ready {
    /// Its number.
    pub at: usize,
    judgement: Judgement,
    prepared: Rc<Prepared>,
    group: usize,
    /// Of the slots, in their order.
    references: Rc<Vec<Reference>>,
}

/// A case whose kernels were verified.
pub(super) struct Verified {
    /// Operands, by group of kernels that share weights.
    pub loads: Vec<Loaded>,
    /// The kernels that were right.
    pub ready: Vec<Ready>,
    /// Where all of them write.
    pub output: Output,
}

/// Replays of a graph over all slots, or launches of them on the stream.
pub(super) struct CudaSubject<'a> {
    cuda: &'a Cuda,
    prepared: Rc<Prepared>,
    graph: Option<Graph>,
    start: Event,
    end: Event,
    calls: usize,
}

impl Subject for CudaSubject<'_> {
    fn sample(&mut self) -> Result<Sample, SubjectError> {
        let failed = |e: DeviceError| SubjectError(e.to_string());
        match &self.graph {
            Some(graph) => graph.launch().map_err(failed)?,
            None => {
                self.start.record(self.cuda).map_err(failed)?;
                for call in 0..self.calls {
                    let plan = &self.prepared.plans[call % self.prepared.plans.len()];
                    plan.run(self.cuda, Parts::All, false).map_err(|e| failed(e.into()))?;
                }
                self.end.record(self.cuda).map_err(failed)?;
            }
        }
        self.cuda.synchronize().map_err(failed)?;
        let ns = self.start.elapsed_ns(&self.end).map_err(failed)?;
        Ok(Sample { ns_per_call: ns / self.calls as f64, calls: self.calls as u32, throttled: false })
    }
}

impl Monitor for Telemetry {
    fn begin_round(&mut self) {}

    fn end_round(&mut self) -> bool {
        self.read()
    }
}

fn reason(e: UnitError) -> String {
    DeviceError::from(e).to_string()
}

impl<'a> CudaRig<'a> {
    /// A rig for an opened GPU; `None` where the build has no CUDA code.
    pub fn new(cuda: &'a Cuda, settings: SweepSettings) -> Option<Self> {
        let support = Support::new(cuda)?;
        Some(CudaRig {
            cuda,
            support,
            settings,
            telemetry: Telemetry::open(&cuda.info().uuid),
            weights: HashMap::new(),
            packed: HashMap::new(),
            weights_of: None,
        })
    }

    /// Verifies and times `kernels` over `cases`, handing over a row for each pair.
    pub fn sweep(&mut self, cases: &[Case], kernels: &[Box<dyn Kernel>], control: &mut Control<'_>) {
        let kernels: Vec<&dyn Kernel> = kernels.iter().map(AsRef::as_ref).collect();
        for (number, case) in cases.iter().enumerate() {
            if control.cancelled() {
                return;
            }
            (control.step)(Step::Case(number + 1, cases.len(), case));
            if let Err(e) = self.case(case, &kernels, control) {
                // After such an error the context is unusable: whatever follows would fail for this reason.
                for later in &cases[number..] {
                    for kernel in &kernels {
                        let row = rows::plain(
                            later,
                            kernel.info(),
                            self.conditions(None),
                            Status::Failed,
                            Some(e.to_string()),
                        );
                        (control.row)(row);
                    }
                }
                return;
            }
        }
    }

    fn conditions(&self, plan: Option<&SlotPlan>) -> Conditions {
        Conditions { l2: self.settings.l2, launch: self.settings.launch, pdl: false, plan: plan.map(SlotPlan::record) }
    }

    /// One case. An error is one of the context, not of a kernel.
    fn case(&mut self, case: &Case, kernels: &[&dyn Kernel], control: &mut Control<'_>) -> Result<(), DeviceError> {
        let Verified { loads, ready, mut output } = self.verified(case, kernels, control)?;
        if ready.is_empty() || control.cancelled() {
            return Ok(());
        }
        self.time(&loads, ready, kernels, &mut output, control)
    }

    /// Loads a case and verifies every kernel on it; a row is handed over for each that is not to be timed. An error is one
    /// of the context, not of a kernel.
    pub(super) fn verified(
        &mut self,
        case: &Case,
        kernels: &[&dyn Kernel],
        control: &mut Control<'_>,
    ) -> Result<Verified, DeviceError> {
        let mut groups: Vec<(Scheme, Vec<usize>)> = Vec::new();
        for (at, kernel) in kernels.iter().enumerate() {
            let refused = case.unsupported().map(str::to_owned).or_else(|| kernel.supports(case).err());
            if let Some(reason) = refused {
                (control.row)(rows::plain(
                    case,
                    kernel.info(),
                    self.conditions(None),
                    Status::Unsupported,
                    Some(reason),
                ));
                continue;
            }
            let key = weights_scheme(kernel.info().scheme);
            match groups.iter_mut().find(|(scheme, _)| *scheme == key) {
                Some((_, members)) => members.push(at),
                None => groups.push((key, vec![at])),
            }
        }
        if self.weights_of != Some((case.shape, case.seed)) {
            self.weights.clear();
            self.packed.clear();
            self.weights_of = Some((case.shape, case.seed));
        }
        let n = case.shape.n;
        let mut output = Output::new(self.cuda, case.total_rows(), n)?;
        let (mut loads, mut ready) = (Vec::new(), Vec::new());
        for (scheme, members) in groups {
            let loaded = match self.load(case, scheme, &members, kernels, control) {
                Ok(loaded) => loaded,
                Err(e) => {
                    for &at in &members {
                        let row = rows::plain(
                            case,
                            kernels[at].info(),
                            self.conditions(None),
                            Status::Failed,
                            Some(e.clone()),
                        );
                        (control.row)(row);
                    }
                    continue;
                }
            };
            let group = loads.len();
            self.verify(&loaded, group, &members, kernels, &mut output, &mut ready, control)?;
            loads.push(loaded);
        }
        Ok(Verified { loads, ready, output })
    }

    /// Makes the operands of a case.
    fn load(
        &mut self,
        case: &Case,
        scheme: Scheme,
        members: &[usize],
        kernels: &[&dyn Kernel],
        control: &mut Control<'_>,
    ) -> Result<Loaded, String> {
        let GemmShape { n, k, .. } = case.shape;
        let plan = SlotPlan::new(&SlotRequest {
            rows: &case.rows,
            bytes_per_expert: weight_bytes_per_expert(scheme, n, k),
            cache_bytes: self.cuda.info().l2_bytes,
            l2: self.settings.l2,
            seed: case.seed,
            limits: SlotLimits::within(self.settings.memory_bytes, layer_weight_bytes(scheme, case.shape)),
        })
        .map_err(|e| e.to_string())?;
        let mut layers = Vec::new();
        for layer in 0..plan.layers() {
            if !self.weights.contains_key(&(scheme, layer)) {
                (control.step)(Step::Doing("making weights"));
                let host = generate_weights(case.shape, scheme, case.seed, layer).map_err(|e| e.to_string())?;
                let device = DeviceWeights::upload(self.cuda, &host).map_err(|e| e.to_string())?;
                self.weights.insert((scheme, layer), Rc::new(device));
            }
            layers.extend(self.weights.get(&(scheme, layer)).cloned());
        }
        let rows = u32::try_from(case.total_rows()).map_err(|_| format!("{} rows are too many", case.total_rows()))?;
        let mut activations = HashMap::new();
        for &at in members {
            let scheme = kernels[at].info().scheme;
            if let Entry::Vacant(place) = activations.entry(scheme) {
                let host = generate_activations(rows, k, scheme, case.seed, ActivationGlobals::PerLayer)
                    .map_err(|e| e.to_string())?;
                place.insert(DeviceActivations::upload(self.cuda, &host).map_err(|e| e.to_string())?);
            }
        }
        let host_offsets: Vec<Vec<u32>> = (0..plan.len()).map(|slot| plan.offsets(slot)).collect();
        let offsets = host_offsets
            .iter()
            .map(|o| {
                let bytes: Vec<u8> = o.iter().flat_map(|v| v.to_ne_bytes()).collect();
                Buffer::from_host(self.cuda, &bytes, "the offsets").map_err(|e| e.to_string())
            })
            .collect::<Result<_, _>>()?;
        Ok(Loaded { case: case.clone(), scheme, plan, layers, offsets, host_offsets, activations })
    }

    fn addresses(&self, loaded: &Loaded, slot: usize, scheme: Scheme, output: &Output) -> Option<Addresses> {
        let weights = loaded.layers.get(loaded.plan.layer(slot) as usize)?;
        let activations = loaded.activations.get(&scheme)?;
        let mut at = Addresses { offsets: loaded.offsets.get(slot)?.address(self.cuda), ..Addresses::default() };
        weights.enter(self.cuda, &mut at);
        activations.enter(self.cuda, &mut at);
        at.out = output.address(self.cuda);
        Some(at)
    }

    /// The references of all slots: the first in full, the others on sampled columns.
    fn references(
        &self,
        loaded: &Loaded,
        shape: &moebius_shape,
        scheme: Scheme,
        output: &Output,
    ) -> Result<Vec<Reference>, DeviceError> {
        let (case, rows) = (&loaded.case, loaded.case.total_rows() as usize);
        let mut references = Vec::new();
        for slot in 0..loaded.plan.len() {
            let columns = match slot {
                0 => Columns::All,
                _ => Columns::Sampled(SampledColumns::draw(
                    case.shape,
                    SAMPLED_COLUMNS,
                    case.seed.wrapping_add(slot as u64),
                )),
            };
            let width = columns.per_expert(case.shape.n as usize);
            let list = match &columns {
                Columns::All => None,
                Columns::Sampled(sampled) => {
                    let indices = (0..case.shape.experts as usize).flat_map(|e| sampled.of(e).iter());
                    let bytes: Vec<u8> = indices.flat_map(|c| c.to_ne_bytes()).collect();
                    Some(Buffer::from_host(self.cuda, &bytes, "the sampled columns")?)
                }
            };
            let elements = rows * width;
            let values = Buffer::new(self.cuda, elements as u64 * 8, "the reference")?;
            let abs_sums = Buffer::new(self.cuda, elements as u64 * 4, "the reference")?;
            let missing = || DeviceError::Kernel("a slot has no operands".to_owned());
            let at = self.addresses(loaded, slot, scheme, output).ok_or_else(missing)?;
            let max_rows = case.rows.iter().copied().max().unwrap_or(0);
            self.support.reference(
                shape,
                &at,
                &ReferenceTarget {
                    scheme: Scheme::ALL.iter().position(|&s| s == scheme).unwrap_or_default() as u32,
                    max_rows,
                    column_count: if list.is_some() { width as u32 } else { 0 },
                    columns: list.as_ref().map_or(0, |b| b.address(self.cuda)),
                    values: values.address(self.cuda),
                    abs_sums: abs_sums.address(self.cuda),
                },
            )?;
            let values = values.download(self.cuda, 0, elements * 8)?;
            let abs_sums = abs_sums.download(self.cuda, 0, elements * 4)?;
            let values = values.as_chunks::<8>().0.iter().map(|&b| f64::from_ne_bytes(b)).collect();
            let abs_sums = abs_sums.as_chunks::<4>().0.iter().map(|&b| f32::from_ne_bytes(b)).collect();
            let reference = Reference::from_parts(case.shape, rows, columns, values, abs_sums)
                .map_err(|e| DeviceError::Kernel(e.to_string()))?;
            references.push(reference);
        }
        Ok(references)
    }

    /// Packs operands and plans every slot.
    fn prepare(
        &mut self,
        unit: Unit,
        loaded: &Loaded,
        shape: &moebius_shape,
        scheme: Scheme,
        output: &Output,
    ) -> Result<Prepared, String> {
        let sizes = unit.sizes(shape).map_err(reason)?;
        let mut prepared = Prepared {
            plans: Vec::new(),
            _workspaces: Vec::new(),
            _packed_weights: Vec::new(),
            _packed_activations: Vec::new(),
        };
        for slot in 0..loaded.plan.len() {
            let mut at = self.addresses(loaded, slot, scheme, output).ok_or("a slot has no operands")?;
            if sizes.packed_weights > 0 {
                let layer = loaded.plan.layer(slot);
                let key = (unit.weights_layout(), loaded.scheme, layer);
                let known = self.packed.get(&key).cloned();
                let packed = match known {
                    Some(packed) => packed,
                    None => {
                        let buffer = Buffer::new(self.cuda, sizes.packed_weights, "packed weights")
                            .map_err(|e| e.to_string())?;
                        at.packed_weights = buffer.address(self.cuda);
                        unit.pack_weights(self.cuda, shape, &at).map_err(reason)?;
                        let packed = Rc::new(buffer);
                        self.packed.insert(key, packed.clone());
                        packed
                    }
                };
                at.packed_weights = packed.address(self.cuda);
                prepared._packed_weights.push(packed);
            }
            if sizes.packed_activations > 0 {
                let buffer = Buffer::new(self.cuda, sizes.packed_activations, "packed activations")
                    .map_err(|e| e.to_string())?;
                at.packed_activations = buffer.address(self.cuda);
                unit.pack_activations(self.cuda, shape, &at).map_err(reason)?;
                prepared._packed_activations.push(Rc::new(buffer));
            }
            if sizes.workspace > 0 {
                let buffer = Buffer::new(self.cuda, sizes.workspace, "a workspace").map_err(|e| e.to_string())?;
                at.workspace = buffer.address(self.cuda);
                prepared._workspaces.push(buffer);
            }
            prepared.plans.push(unit.plan(self.cuda, shape, &at).map_err(reason)?);
        }
        self.cuda.synchronize().map_err(|e| e.to_string())?;
        Ok(prepared)
    }

    /// Runs one slot into poison and judges what it wrote.
    fn judge_slot(
        &self,
        prepared: &Prepared,
        slot: usize,
        loaded: &Loaded,
        scheme: Scheme,
        reference: &Reference,
        output: &mut Output,
    ) -> Result<Judgement, DeviceError> {
        output.poison(self.cuda)?;
        if let Some(plan) = prepared.plans.get(slot) {
            plan.run(self.cuda, Parts::All, false)?;
        }
        self.judge_output(slot, loaded, scheme, reference, output)
    }

    fn judge_output(
        &self,
        slot: usize,
        loaded: &Loaded,
        scheme: Scheme,
        reference: &Reference,
        output: &Output,
    ) -> Result<Judgement, DeviceError> {
        let whole: Vec<bf16> = output.download(self.cuda)?;
        let (before, rest) = whole.split_at(output.guard());
        let (out, after) = rest.split_at(rest.len() - output.guard());
        let arithmetic = accumulation(scheme, self.cuda.info().compute_capability);
        let judgement = judge::judge(out, reference, &loaded.host_offsets[slot], arithmetic);
        Ok(match guard::check_guards(before, after) {
            Ok(()) => judgement,
            Err(reason) => Judgement { failure: None, ..judgement }.merge(Judgement::failed(reason)),
        }
        .in_slot(slot))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one case, each of its own lifetime")]
    fn verify(
        &mut self,
        loaded: &Loaded,
        group: usize,
        members: &[usize],
        kernels: &[&dyn Kernel],
        output: &mut Output,
        ready: &mut Vec<Ready>,
        control: &mut Control<'_>,
    ) -> Result<(), DeviceError> {
        let case = &loaded.case;
        let shape = abi_shape(case, self.cuda.info().sm_count).map_err(DeviceError::Kernel)?;
        let mut schemes: Vec<Scheme> = members.iter().map(|&at| kernels[at].info().scheme).collect();
        schemes.sort_unstable();
        schemes.dedup();
        for scheme in schemes {
            (control.step)(Step::Doing("computing the reference"));
            let references = Rc::new(self.references(loaded, &shape, scheme, output)?);
            for &at in members.iter().filter(|&&at| kernels[at].info().scheme == scheme) {
                if control.cancelled() {
                    return Ok(());
                }
                let info = kernels[at].info();
                let Engine::Cuda(unit) = kernels[at].engine() else { continue };
                (control.step)(Step::Doing(&format!("verifying {}", info.id)));
                let conditions = self.conditions(Some(&loaded.plan));
                let prepared = match self.prepare(unit, loaded, &shape, scheme, output) {
                    Ok(prepared) => Rc::new(prepared),
                    Err(reason) => {
                        (control.row)(rows::plain(case, info, conditions, Status::Failed, Some(reason)));
                        continue;
                    }
                };
                let mut judgement = Judgement::empty();
                for (slot, reference) in references.iter().enumerate() {
                    judgement = judgement.merge(self.judge_slot(&prepared, slot, loaded, scheme, reference, output)?);
                    if !judgement.is_right() {
                        break;
                    }
                }
                if judgement.is_right() && self.settings.timing {
                    ready.push(Ready { at, judgement, prepared, group, references: references.clone() });
                    continue;
                }
                let status = if judgement.is_right() { Status::Ok } else { Status::Wrong };
                let mut row = rows::plain(case, info, conditions, status, judgement.failure.clone());
                row.verify = Some(rows::verified(&judgement, None));
                (control.row)(row);
            }
        }
        Ok(())
    }

    /// Whole calls of a verified kernel.
    pub(super) fn subject(&self, ready: &Ready) -> Result<CudaSubject<'a>, DeviceError> {
        self.subject_of(&ready.prepared, Parts::All)
    }

    /// A subject of all slots, as often as it takes for enough calls.
    fn subject_of(&self, prepared: &Rc<Prepared>, parts: Parts) -> Result<CudaSubject<'a>, DeviceError> {
        let slots = prepared.plans.len();
        let calls = slots * LEAST_CALLS.div_ceil(slots);
        let (start, end) = (Event::new(self.cuda)?, Event::new(self.cuda)?);
        let graph = match self.settings.launch {
            Launch::Graph => Some(capture(self.cuda, || {
                // The first node of a graph waits for the graph's own launch; it is an empty one.
                self.support.empty()?;
                start.record_in_graph(self.cuda)?;
                for call in 0..calls {
                    prepared.plans[call % slots].run(self.cuda, parts, false)?;
                }
                end.record_in_graph(self.cuda)
            })?),
            _ => None,
        };
        Ok(CudaSubject { cuda: self.cuda, prepared: prepared.clone(), graph, start, end, calls })
    }

    /// Time of what the kernel derives from the routing, where it is a launch of its own.
    fn prepare_ns(&self, prepared: &Rc<Prepared>) -> Option<f64> {
        let mut subject = self.subject_of(prepared, Parts::Prepare).ok()?;
        let mut times: Vec<f64> = (0..7).filter_map(|_| subject.sample().ok()).map(|s| s.ns_per_call).collect();
        times.sort_by(f64::total_cmp);
        // Between two event nodes with nothing in between some nanoseconds pass.
        times.get(times.len() / 2).copied().filter(|&ns| ns > 200.0)
    }

    fn time(
        &mut self,
        loads: &[Loaded],
        ready: Vec<Ready>,
        kernels: &[&dyn Kernel],
        output: &mut Output,
        control: &mut Control<'_>,
    ) -> Result<(), DeviceError> {
        let mut settings = Settings::gpu(self.settings.seed);
        settings.exhaustive = self.settings.exhaustive;
        settings.precision = self.settings.precision.unwrap_or(settings.precision);
        settings.time_limit = self.settings.time_limit.unwrap_or(settings.time_limit);
        let mut subjects = Vec::new();
        for ready in &ready {
            subjects.push(self.subject(ready)?);
        }
        let mut contenders: Vec<Contender<'_>> = subjects
            .iter_mut()
            .zip(&ready)
            .map(|(subject, ready)| {
                let info = kernels[ready.at].info();
                let class = Scheme::ALL.iter().position(|&s| s == info.scheme).unwrap_or_default() as u32;
                Contender { subject, class, eligible: !info.needs_host_counts }
            })
            .collect();
        let clock = WallClock::start();
        let step = &mut control.step;
        let mut progress = |p: &crate::measure::Progress| step(Step::Sampling(p));
        let mut hooks = Hooks {
            cancel: Some(control.cancel),
            progress: Some(&mut progress),
            monitor: self.telemetry.as_mut().map(|t| t as &mut dyn Monitor),
            ..Hooks::new(&clock)
        };
        let outcomes: Vec<Outcome> = sample(&mut contenders, &settings, &mut hooks).outcomes;
        let telemetry = self.telemetry.as_mut().and_then(Telemetry::take);
        for ((ready, outcome), mut subject) in ready.into_iter().zip(outcomes).zip(subjects) {
            let (loaded, info) = (&loads[ready.group], kernels[ready.at].info());
            // The same graph once more, into poison: what it leaves is the answer of its last call.
            output.poison(self.cuda)?;
            let mut judgement = ready.judgement;
            if outcome.error.is_none() && subject.sample().is_ok() {
                let slot = (subject.calls - 1) % loaded.plan.len();
                if let Some(reference) = ready.references.get(slot) {
                    judgement = judgement.merge(self.judge_output(slot, loaded, info.scheme, reference, output)?);
                }
            }
            let status = if judgement.is_right() { Status::Ok } else { Status::Wrong };
            let mut row =
                rows::plain(&loaded.case, info, self.conditions(Some(&loaded.plan)), status, judgement.failure.clone());
            row.verify = Some(rows::verified(&judgement, None));
            row.telemetry = telemetry
                .clone()
                .map(|t| crate::record::TelemetryRecord { throttled_samples: outcome.throttled_samples(), ..t });
            if status == Status::Ok {
                rows::enter_time(&mut row, &outcome);
                if let Some(time) = &mut row.time {
                    time.prepare_ns = self.prepare_ns(&ready.prepared);
                }
            }
            if self.settings.l2 == L2::Cold && !loaded.plan.is_cold() {
                row.warnings.push(rows::warm_warning(&loaded.plan, self.cuda.info().l2_bytes));
            }
            (control.row)(row);
        }
        Ok(())
    }
}
