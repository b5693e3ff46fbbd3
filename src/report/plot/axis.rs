//! Axes: from numbers to places, and the ticks between.

/// How numbers lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Log,
}

/// An axis from the least to the largest of its numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    /// Place of `from`, place of `to`.
    places: (f32, f32),
}

impl Axis {
    /// A logarithmic axis that holds all the numbers, with a little room at both ends.
    pub(super) fn log(numbers: impl IntoIterator<Item = f64>, places: (f32, f32)) -> Option<Axis> {
        let (mut from, mut to) = (f64::INFINITY, f64::NEG_INFINITY);
        for number in numbers.into_iter().filter(|n| n.is_finite() && *n > 0.0) {
            (from, to) = (from.min(number), to.max(number));
        }
        let room = (to / from).powf(0.04).max(1.05);
        (from <= to).then_some(Axis { scale: Scale::Log, from: from / room, to: to * room, places })
    }

    /// A linear axis from zero.
    pub(super) fn linear(to: f64, places: (f32, f32)) -> Axis {
        Axis { scale: Scale::Linear, from: 0.0, to, places }
    }

    /// The place of a number, kept within the axis.
    pub(super) fn place(&self, number: f64) -> f32 {
        let share = match self.scale {
            Scale::Linear => (number - self.from) / (self.to - self.from),
            Scale::Log => (number / self.from).ln() / (self.to / self.from).ln(),
        };
        self.places.0 + (self.places.1 - self.places.0) * share.clamp(0.0, 1.0) as f32
    }

    /// The largest number on the axis.
    pub(super) fn end(&self) -> f64 {
        self.to
    }

    /// Round numbers on the axis: 1, 2 and 5 of each power of ten, fewer when there are many powers; fifths when
    /// linear.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => (0..=5).map(|i| self.to * f64::from(i) / 5.0).collect(),
            Scale::Log => {
                let (first, last) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
                let decades = (self.to / self.from).log10();
                let steps: &[f64] = match decades {
                    few if few <= 2.0 => &[1.0, 2.0, 5.0],
                    some if some <= 3.0 => &[1.0, 3.0],
                    _ => &[1.0],
                };
                let powers = (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
                powers.filter(|tick| (self.from..=self.to).contains(tick)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn a_log_axis_holds_its_numbers_and_has_round_ticks() {
        let axis = Axis::log([8.0, 190.0, f64::NAN, -1.0], (0.0, 100.0)).unwrap();
        assert!(axis.place(8.0) > 0.0 && axis.place(190.0) < 100.0);
        assert_eq!(
            axis.ticks(),
            [10.0, 20.0, 50.0, 100.0, 200.0].into_iter().filter(|t| *t < 210.0).collect::<Vec<_>>()
        );
        assert!((axis.place(39.0) - 50.0).abs() < 1.0, "the geometric mean lies in the middle");
        assert!(Axis::log([], (0.0, 1.0)).is_none());
        assert!(Axis::log([7.0], (0.0, 1.0)).unwrap().place(7.0) > 0.0);
    }
}
