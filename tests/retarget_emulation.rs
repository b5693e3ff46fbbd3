//! The emulation of `moebius::retarget` by itself, against the model of `retarget_support`: here on an interpreter of what it
//! emits, and on a Hopper GPU where there is one (`cargo test --test retarget_emulation -- --ignored`).

mod retarget_support;

use retarget_support::checks::{self, Machine};
use retarget_support::{gpu, warp};

macro_rules! on_both {
    ($($name:ident,)*) => {
        $(
            #[test]
            fn $name() {
                checks::$name(Machine { run: warp::run, fragments: 2 });
            }
        )*
        mod on_a_gpu {
            use super::{Machine, checks, gpu};
            $(
                #[test]
                #[ignore = "needs a Hopper GPU"]
                fn $name() {
                    checks::$name(Machine { run: gpu::run, fragments: 16 });
                }
            )*
        }
    };
}

on_both! {
    fragments_under_every_selector,
    every_pair_of_formats,
    every_e2m1_with_every_ue4m3_exactly,
    a_nan_scale_makes_its_row_or_column_nan,
    conversions_to_e2m1_round_as_the_model,
    conversions_to_ue8m0_round_as_the_model,
    conversions_from_codes_are_exact,
}
