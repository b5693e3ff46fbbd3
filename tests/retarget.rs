//! Rewriting PTX, without a GPU: what is understood, what is left alone, what is refused and by which name.

use moebius::retarget::statement::{Kind, Operand, parse, print};
use moebius::retarget::{MARK, retarget};
use proptest::prelude::*;

const NVFP4: &str = "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 \
                     {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4}, {%r7}, {0, 0}, {%r8}, {0, 0};";

fn around(body: &str) -> String {
    format!(
        ".version 8.7\n.target sm_120a\n.address_size 64\n.visible .entry sum(.param .u64 p)\n{{\n{body}\nret;\n}}\n"
    )
}

fn rewritten(body: &str) -> String {
    retarget(&around(body), MARK).expect("it can be rewritten").ptx
}

fn refused(body: &str) -> moebius::retarget::Refusal {
    retarget(&around(body), MARK).expect_err("it cannot be rewritten")
}

#[test]
fn text_without_instructions_of_blackwell_changes_its_target_alone() {
    let body = "// a comment; with { braces }\n.reg .b32 %r<4>;\nL1: @!%p1 bra L1;\nadd.s32 %r1, %r2, -3;\n/* over\nlines */ \
                ld.param.u64 %rd1, [p+8];\ncall.uni (r), f, (a, b);\n.pragma \"nounroll; {\";";
    assert_eq!(rewritten(body), around(body).replace("sm_120a", "sm_90a"));
}

#[test]
fn statements_are_understood_whatever_their_spacing() {
    let text = "@%p1\tmma.a::b.c  {x ,y},[ map ,{ u,v } ] , q+4 ;L:ret;.global .b8 t[2]={1,2};";
    let statements = parse(text).expect("it is PTX");
    let Kind::Instruction(first) = &statements[0].kind else { panic!("no instruction") };
    assert_eq!((first.guard, first.opcode), (Some((false, "%p1")), "mma.a::b.c"));
    assert_eq!(first.operands[0].vector(), Some(vec!["x", "y"]));
    let Operand::Address(parts) = &first.operands[1] else { panic!("no address") };
    assert_eq!((parts[0].plain(), parts[1].vector()), (Some("map"), Some(vec!["u", "v"])));
    assert_eq!(first.operands[2].plain(), Some("q+4"));
    assert_eq!(statements[1].kind, Kind::Label("L"));
    assert!(matches!(&statements[3].kind, Kind::Directive(words) if words[0] == ".global"));
    assert_eq!(statements.len(), 4);
}

#[test]
fn every_form_that_is_covered_leaves_nothing_that_hopper_lacks() {
    let regs = "{%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4}";
    let mut forms = vec![NVFP4.to_owned()];
    for (head, scales) in [
        ("mxf4nvf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0", ", %r7, {2, 1}, %r8, {0, 3}"),
        (
            "mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0",
            ", {%r7}, {%rs1, %rs2}, {%r8}, {%rs3, %rs4}",
        ),
        (
            "mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e2m1.e5m2.f32.ue8m0",
            ", {%r7}, {3, 0}, {%r8}, {1, 2}",
        ),
        ("f8f6f4.m16n8k32.row.col.f32.e3m2.e2m3.f32", ""),
    ] {
        forms.push(format!("mma.sync.aligned.kind::{head} {regs}{scales};"));
    }
    forms.push("cvt.rn.satfinite.e2m1x2.f32 %b1, %f1, %f2;".to_owned());
    forms.push("cvt.rn.f16x2.e2m1x2 %r1, %b1;".to_owned());
    forms.push("cvt.rp.satfinite.ue8m0x2.f32 %h1, %f1, %f2;".to_owned());
    forms.push("cvt.rz.satfinite.ue8m0x2.f32 %h1, %f1, %f2;".to_owned());
    forms.push("cvt.rn.bf16x2.ue8m0x2 %r1, %h1;".to_owned());
    forms.push("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64 {%r1, %r2, %r3, %r4}, [%r5+16];".to_owned());
    for form in forms {
        let guarded = format!("@%p3 {form}");
        for body in [form.as_str(), &guarded] {
            let text = rewritten(body);
            for word in ["kind::", "e2m1", "ue8m0", "b4x16"] {
                assert!(!text.contains(word), "{word} is left of {body}");
            }
            assert!(parse(&text).is_ok(), "{text}");
        }
        assert!(rewritten(&guarded).contains("@!%p3 bra"), "the guard of {form} is lost");
    }
}

#[test]
fn a_refusal_names_the_instruction_and_its_place() {
    let refusal = refused("add.s32 %r1, %r1, 1;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;");
    assert_eq!((refusal.line, refusal.entry.as_str()), (7, "sum"));
    assert!(refusal.to_string().contains("tcgen05.alloc"), "{refusal}");
    for body in [
        "mma.sync.aligned.kind::i8.m16n8k32.row.col.s32.s8.s8.s32 {%r1}, {%r2}, {%r3}, {%r4};",
        "cvt.rn.satfinite.e2m3x2.f32 %h1, %f1, %f2;",
        "cvt.rn.satfinite.relu.e2m1x2.f32 %b1, %f1, %f2;",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {%r1}, [%r2];",
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r1, %r2}, [%r2];",
        "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r1], {%r2};",
        "add.rn.f32x2 %rd1, %rd2, %rd3;",
        "tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%rd1], 3;",
        "tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%rd1], 0, %r1;",
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %rd1;",
        &NVFP4.replace("{0, 0}, {%r8}", "{1, 0}, {%r8}"),
        &NVFP4.replace("{0, 0}, {%r8}", "{0, 2}, {%r8}"),
        &NVFP4.replace("{%r5, %r6}", "{%r5}"),
        &NVFP4.replace("mma.sync", "mma.sp.sync"),
    ] {
        let refusal = refused(body);
        assert_eq!(refusal.instruction, body.split_whitespace().next().expect("an opcode"), "{refusal}");
        assert_eq!(refusal.line, 6);
    }
    assert!(retarget(&around("ret;").replace("sm_120a", "sm_100a"), MARK).is_err());
}

#[test]
fn texts_without_an_end_are_refused_with_their_line() {
    for text in ["add.s32 %r1, %r2", "/* ", ".pragma \"x", "\nmov.b32 {%r1, [%r2];", "1;", "ld.b32 %r1, [%r2;"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn coordinates_and_extents_along_dimension_0_alone_depend_on_the_map() {
    let load =
        "cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];";
    let text = rewritten(load);
    assert!(text.contains("ld.b32") && text.contains(", %r3}]") && !text.contains("{%r2,"), "{text}");
    assert!(rewritten(&load.replace("2d", "4d").replace("%r3", "%r3, %r5, %r6")).contains(", %r3, %r5, %r6}]"));
    let extent = "tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%rd1], 0, %r2;";
    assert!(rewritten(extent).contains("ld.shared.b32"));
    for body in [extent.replace(", 0,", ", 1,"), extent.replace("global_dim", "global_stride")] {
        assert!(rewritten(&body).contains(&body));
    }
}

/// The host marks maps where the rewritten instructions look.
#[test]
fn the_mark_is_the_same_on_both_sides() {
    let host = include_str!("../csrc/support/tensor_map.cu");
    let moebius::retarget::Mark { offset, mask, packed, spread, box_offset, box_shift } = MARK;
    for constants in [
        format!("kMarkOffset = {offset}, kMarkMask = {mask:#x}, kMarkPacked = {packed:#x}, kMarkSpread = {spread:#x};"),
        format!("kBoxOffset = {box_offset}, kBoxShift = {box_shift};"),
    ] {
        assert!(host.contains(&constants), "{constants}");
    }
}

#[test]
fn what_is_replaced_is_counted_by_opcode() {
    let counts = retarget(&around(&format!("{NVFP4}\n{NVFP4}")), MARK).expect("it can be rewritten").replaced;
    assert_eq!(counts.values().copied().collect::<Vec<_>>(), [2]);
}

/// Statements with any blanks and names.
fn statement() -> impl Strategy<Value = String> {
    let name = "[%$_a-z][a-z0-9_$]{0,6}";
    let blank = "[ \t\n]{0,3}(//[ -~]{0,9}\n|/\\*[ a-z;{}]{0,9}\\*/)?";
    prop_oneof![
        (blank, "[a-z]{2,6}(\\.[a-z0-9]{1,5}){0,3}(::[a-z]{1,4})?", name, name)
            .prop_map(|(blank, opcode, a, b)| format!("{blank}{opcode} {a},{blank}[{b}+4];")),
        (blank, name, name).prop_map(|(blank, p, a)| format!("{blank}@!{p}{blank} mov.b32 {{{a},{blank}{a}}}, 0x1f;")),
        (blank, "[$_a-z][a-z0-9_]{0,6}").prop_map(|(blank, label)| format!("{blank}{label}{blank}:")),
        blank.prop_map(|blank| format!("{blank}{{{blank}}}")),
        blank.prop_map(|blank| format!("{blank}.reg .b32{blank} %r<4>;")),
        Just(".loc 1 2 3, function_name $x, inlined_at 4 5 6\n".to_owned()),
    ]
}

proptest! {
    #[test]
    fn printing_gives_back_what_was_parsed(statements in prop::collection::vec(statement(), 0..20)) {
        let text = statements.concat();
        let parsed = parse(&text).expect("it is PTX");
        prop_assert_eq!(print(&parsed), text.clone());
        // An instruction printed from its parts is the same instruction.
        for statement in &parsed {
            if let Kind::Instruction(instruction) = &statement.kind {
                let again = instruction.to_string();
                let again = parse(&again).expect("it is PTX");
                prop_assert_eq!(&again[0].kind, &statement.kind);
            }
        }
    }

    #[test]
    fn no_text_is_a_panic(text in "[ -~\n]{0,80}") {
        let _ = retarget(&text, MARK);
    }
}
