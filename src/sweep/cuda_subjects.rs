//! Kernels of a GPU as subjects of a benchmark runner.

use std::rc::Rc;

use super::Control;
use super::cpu::CaseSubject;
use super::cuda::{CudaRig, CudaSubject, Loaded};
use super::cuda_operands::Output;
use crate::kernel::{Kernel, KernelId};
use crate::measure::{Sample, Subject, SubjectError};
use crate::shape::Case;

/// A subject, with what its graph points into.
struct BenchSubject {
    // Before the operands: fields are dropped in this order.
    subject: CudaSubject<'static>,
    _operands: Rc<(Vec<Loaded>, Output)>,
}

impl Subject for BenchSubject {
    fn sample(&mut self) -> Result<Sample, SubjectError> {
        self.subject.sample()
    }
}

/// The subjects of one case for a benchmark runner: loaded, verified, in the order of `kernels`; for each that cannot be
/// timed the reason.
///
/// # Errors
/// The context is unusable, as after an illegal access of a kernel.
pub fn cuda_subjects(
    rig: &mut CudaRig<'static>,
    case: &Case,
    kernels: &[Rc<Box<dyn Kernel>>],
) -> Result<Vec<CaseSubject>, SubjectError> {
    let broken = |e: crate::device::cuda::DeviceError| SubjectError(e.to_string());
    let kernels: Vec<&dyn Kernel> = kernels.iter().map(|kernel| kernel.as_ref().as_ref()).collect();
    let mut refused: Vec<(KernelId, String)> = Vec::new();
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let mut control = Control {
        cancel: &cancel,
        step: &mut |_| {},
        row: &mut |row| refused.push((row.kernel.id, row.reason.unwrap_or_else(|| row.status.as_str().to_owned()))),
    };
    let verified = rig.verified(case, &kernels, &mut control).map_err(broken)?;
    let operands = Rc::new((verified.loads, verified.output));
    let mut subjects: Vec<Option<CaseSubject>> = kernels.iter().map(|_| None).collect();
    for ready in &verified.ready {
        let made = rig
            .subject(ready)
            .map_err(broken)
            .map(|subject| Box::new(BenchSubject { subject, _operands: operands.clone() }) as Box<dyn Subject>);
        if let Some(place) = subjects.get_mut(ready.at) {
            *place = Some(made);
        }
    }
    let reason = |kernel: &&dyn Kernel| {
        let of_it = refused.iter().find(|(id, _)| *id == kernel.info().id);
        SubjectError(of_it.map_or_else(|| "it was not verified".to_owned(), |(_, reason)| reason.clone()))
    };
    Ok(subjects.into_iter().zip(&kernels).map(|(made, kernel)| made.unwrap_or_else(|| Err(reason(kernel)))).collect())
}
