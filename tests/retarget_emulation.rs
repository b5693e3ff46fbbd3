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

            /// The driver keeps the L2 promotion and the box of a map where the rewritten instructions look.
            #[test]
            #[ignore = "needs a Hopper GPU"]
            fn the_mark_is_where_the_driver_puts_it() {
                use cudarc::driver::sys::CUtensorMapL2promotion as Promotion;
                let mark = moebius::retarget::MARK;
                let plain = gpu::map_words(Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B, 64);
                let differing = |other: &[u32; 32]| -> Vec<_> {
                    (0..32).filter(|&w| plain[w] != other[w]).map(|w| (4 * w, plain[w], other[w])).collect()
                };
                for (promotion, value) in [
                    (Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B, mark.packed),
                    (Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_64B, mark.spread),
                ] {
                    let words = gpu::map_words(promotion, 64);
                    let (here, there) = (words[mark.offset as usize / 4], plain[mark.offset as usize / 4]);
                    let changes = differing(&words);
                    assert!(here & mark.mask == value && there & mark.mask != value, "{promotion:?}: {changes:x?}");
                }
                for rows in [1, 64, 200, 256] {
                    let words = gpu::map_words(Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B, rows);
                    let found = (words[mark.box_offset as usize / 4] >> mark.box_shift & 0xff) + 1;
                    assert_eq!(found, rows, "{:x?}", differing(&words));
                }
            }

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

/// The row of 16 values at byte 16 c of a swizzled row of 128 comes from bytes 8 c of the packed row that lies there instead.
#[test]
fn values_are_unpacked_from_rows_under_the_swizzle() {
    let place = |row: u64, byte: u64| 4096 + 128 * row + ((byte / 16) ^ (row % 8)) * 16 + byte % 16;
    // Four matrices of eight rows: lane l holds the address of row l % 8 of matrix l / 8.
    let (row, chunk) = (|l: u64| 8 * (l / 16) + l % 8, |l: u64| (3 * (l / 8) + l % 2) % 8);
    let words: Vec<u32> = (0..32).flat_map(|l| [place(row(l), 16 * chunk(l)) as u32 - 16; 12]).collect();
    let load = "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%r20, %r21, %r22, %r23}, [%r0+16];";
    let out = warp::run(&retarget_support::mma_kernel(load), &words, 128, 1, 0);
    for lane in 0..32u64 {
        for matrix in 0..4 {
            let holder = 8 * matrix + lane / 4;
            let packed = 8 * chunk(holder) + 2 * (lane % 4);
            let [low, high] = [packed, packed + 1].map(|b| u32::from(warp::shared(place(row(holder), b))));
            let expected = low & 15 | (low >> 4) << 8 | (high & 15) << 16 | (high >> 4) << 24;
            assert_eq!(out[(4 * lane + matrix) as usize], expected, "lane {lane} matrix {matrix}");
        }
    }
}

/// Faults that a kernel or an emulation could have, planted into what the interpreter runs: the checks find each.
mod planted_faults {
    use super::{Machine, checks, warp};

    /// The words of each lane changed, `change(all words, index of the first of a lane, the lane's words)`.
    fn with_words(words: &[u32], change: impl Fn(&[u32], usize, &mut [u32])) -> Vec<u32> {
        let mut changed = words.to_vec();
        for (lane, own) in changed.chunks_mut(12).enumerate() {
            change(words, 12 * lane, own);
        }
        changed
    }

    fn is_found(run: fn(&str, &[u32], usize, usize, u32) -> Vec<u32>) {
        let checked = std::panic::catch_unwind(|| {
            checks::fragments_under_every_selector(Machine { run, fragments: 1 });
        });
        assert!(checked.is_err(), "the checks pass over it");
    }

    #[test]
    fn a_scale_byte_of_the_next_block() {
        is_found(|ptx, words, count, blocks, picks| {
            let words = with_words(words, |_, _, lane| lane[10] = lane[10].rotate_right(8));
            warp::run(ptx, &words, count, blocks, picks)
        });
    }

    #[test]
    fn scales_of_the_next_column() {
        is_found(|ptx, words, count, blocks, picks| {
            let words = with_words(words, |all, first, lane| lane[11] = all[(first + 48 + 11) % all.len()]);
            warp::run(ptx, &words, count, blocks, picks)
        });
    }

    #[test]
    fn the_other_order_of_nibbles() {
        is_found(|ptx, words, count, blocks, picks| {
            let swapped = |w: u32| (w & 0x0f0f_0f0f) << 4 | (w >> 4) & 0x0f0f_0f0f;
            let words = with_words(words, |_, _, lane| lane[..4].iter_mut().for_each(|w| *w = swapped(*w)));
            warp::run(ptx, &words, count, blocks, picks)
        });
    }

    #[test]
    fn a_selector_that_is_ignored() {
        is_found(|ptx, words, count, blocks, picks| {
            let (before, rest) = ptx.split_once("{%r11}, {").expect("the selectors of B");
            let (_, after) = rest.split_once('}').expect("their end");
            warp::run(&format!("{before}{{%r11}}, {{0, 0}}{after}"), words, count, blocks, picks)
        });
    }

    #[test]
    fn a_product_that_is_left_out() {
        is_found(|ptx, words, count, blocks, picks| {
            let words = with_words(words, |_, first, lane| {
                if first % 384 == 0 {
                    lane[5] = 0;
                }
            });
            warp::run(ptx, &words, count, blocks, picks)
        });
    }
}
