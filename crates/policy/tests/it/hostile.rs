//! Rules and documents that try to take too much.

use std::time::{Duration, Instant};

use ringfence_policy::{Engine, POLICY_UNAVAILABLE, Trouble, contract, contract::document};
use ringfence_types::Verdict;

use super::{decided, load};

/// Nine loops over ten values: a billion steps.
const BOMB: &str = "package ringfence
xs := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
decision := count([1 | some a in xs; some b in xs; some c in xs; some d in xs; some e in xs
    some f in xs; some g in xs; some h in xs; some i in xs]) > 0";

#[tokio::test]
async fn a_rule_that_takes_too_long_is_cut_off_and_the_call_held() {
    let started = Instant::now();
    let (permitted, decision) = decided(BOMB, "{}").await;
    assert!(started.elapsed() < contract::EVALUATE_TIMEOUT, "{:?}", started.elapsed());
    assert!(!permitted);
    assert_eq!(
        (decision.verdict, decision.reasons[0].rule.as_str()),
        (Verdict::Hold, POLICY_UNAVAILABLE)
    );
    // Control: the same rule over fewer values is allowed.
    let small = BOMB.replace("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]", "[0]");
    assert!(decided(&small, "{}").await.0);
}

#[tokio::test]
async fn other_tasks_go_on_while_a_rule_runs_away() {
    let rego = std::sync::Arc::new(load(BOMB).expect("rules"));
    let input = document(&[], "{}");
    let asked = tokio::spawn({
        let rego = std::sync::Arc::clone(&rego);
        async move { rego.evaluate(&input).await }
    });
    // The runtime has one thread: these turns happen only if the evaluation is on another.
    let mut turns = 0;
    while !asked.is_finished() {
        tokio::task::yield_now().await;
        turns += 1;
    }
    assert_eq!(asked.await.expect("task").expect_err("cut off").trouble, Trouble::Slow);
    assert!(turns > 1000, "{turns} turns");
}

/// Rules found by their guards are evaluated inline; a runaway rule among them must not block the
/// caller's thread.
#[tokio::test]
async fn a_rule_that_runs_away_behind_a_condition_is_cut_off_every_time() {
    let plain: String = (0..100)
        .map(|index| format!("denials contains {index} if input.args.path == \"p{index}\"\n"))
        .collect();
    let rules = format!(
        "{}\n{plain}denials contains \"bomb\" if {{ input.args.path == \"bomb\"; loops }}\n\
         decision := count(denials) == 0\n",
        BOMB.replace("decision :=", "loops :="),
    );
    let rego = load(&rules).expect("rules");
    for number in 0..12 {
        // Each document is new, so that no answer is cached.
        let args = |path: &str| format!(r#"{{"path":"{path}","number":{number}}}"#);
        let bomb = rego.evaluate(&document(&[], &args("bomb"))).await;
        assert_eq!(bomb.expect_err("cut off").trouble, Trouble::Slow);
        let denied = rego.evaluate(&document(&[], &args("p7"))).await.expect("an answer");
        let allowed = rego.evaluate(&document(&[], &args("p"))).await.expect("an answer");
        assert_eq!((denied.verdict, allowed.verdict), (Verdict::Deny, Verdict::Allow));
    }
}

#[tokio::test]
async fn a_rush_of_slow_rules_is_refused_and_not_queued_without_end() {
    let rego = std::sync::Arc::new(load(BOMB).expect("rules"));
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let rego = std::sync::Arc::clone(&rego);
        tasks.spawn(async move { rego.evaluate(&document(&[], "{}")).await });
    }
    let troubles: Vec<_> = tasks
        .join_all()
        .await
        .into_iter()
        .map(|answer| answer.expect_err("no answer").trouble)
        .collect();
    assert!(started.elapsed() < contract::EVALUATE_TIMEOUT, "{:?}", started.elapsed());
    assert!(troubles.contains(&Trouble::Busy) && troubles.contains(&Trouble::Slow));
}

#[tokio::test]
async fn an_answer_without_end_is_not_an_answer() {
    let reasons = "package ringfence
        xs := [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        decision := {\"decision\": \"allow\", \"reasons\": [{\"rule\": \"r\", \"message\": \"m\"} |
            some a in xs; some b in xs; some c in xs]}";
    let (permitted, decision) = decided(reasons, "{}").await;
    assert!(!permitted);
    assert_eq!(decision.reasons.len(), 1);
    let message = "package ringfence
        decision := {\"decision\": \"allow\", \"reasons\": [{\"rule\": \"r\", \"message\": input.args.m}]}";
    let args = format!(r#"{{"m":"{}"}}"#, "x".repeat(1 << 20));
    assert!(!decided(message, &args).await.0);
    assert!(decided(message, r#"{"m":"short"}"#).await.0, "the control");
}

#[tokio::test]
async fn rules_that_need_each_other_in_a_long_row_do_not_end_the_server() {
    let rules: String = (1..990).map(|index| format!("r{index} := r{}\n", index - 1)).collect();
    let row = format!("package ringfence\nr0 := true\ndecision := r989\n{rules}");
    let (_, decision) = decided(&row, "{}").await;
    assert_ne!(decision.verdict, Verdict::Deny);
    let rules: String =
        (1..990).map(|i| format!("f{i}(x) := [y | y := f{}(x)][0]\n", i - 1)).collect();
    let row = format!("package ringfence\nf0(x) := x\ndecision := f989(true)\n{rules}");
    let (_, decision) = decided(&row, "{}").await;
    assert_ne!(decision.verdict, Verdict::Deny);
}

#[test]
fn rules_that_are_nested_without_end_are_refused() {
    let brackets = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let sum = format!("1{}", "\n+ 1".repeat(60_000));
    let dots = format!("input{}", "\n.a".repeat(60_000));
    let unions = format!("{{1}}{}", "\n| {1}".repeat(30_000));
    let started = Instant::now();
    for expression in [brackets, sum, dots, unions] {
        let refused = load(&format!("package ringfence\ndecision := {expression}\n"));
        assert!(refused.is_err(), "{}", &expression[..20]);
    }
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[tokio::test]
async fn documents_that_are_large_deep_or_odd_are_judged_by_rules_that_read_them() {
    let rules = "package ringfence\ndefault decision := false\n\
        decision if { some _, v in input.args; v != \"no\" }";
    contract::run(&load(rules).expect("rules")).await;
    contract::run(&load("package ringfence\ndecision := count(input) > 3").expect("rules")).await;
    contract::run(&load("package ringfence\ndecision := true if input.nothing").expect("rules"))
        .await;
}

#[tokio::test]
async fn threads_end_with_their_rules() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("policy-")).count()
    };
    // Other tests have threads too, so many of this test's must come and go.
    for _ in 0..200 {
        drop(load("package ringfence\ndecision := true").expect("rules"));
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while threads() > 100 {
        assert!(Instant::now() < deadline, "{} threads", threads());
        tokio::task::yield_now().await;
    }
}

/// A new version of the Rego engine may bring built-in functions that must be looked at first:
/// can they make much out of little, or answer differently twice?
#[test]
fn every_built_in_function_was_looked_at() {
    let mut names: Vec<_> = regorus::unstable::BUILTINS.keys().copied().collect();
    names.sort_unstable();
    expect_test::expect![[r#"
        __builtin_sets.intersection
        __builtin_sets.union
        abs
        array.concat
        array.reverse
        array.slice
        base64.decode
        base64.encode
        base64.is_valid
        base64url.decode
        base64url.encode
        base64url.encode_no_pad
        bits.and
        bits.lsh
        bits.negate
        bits.or
        bits.rsh
        bits.xor
        ceil
        concat
        contains
        count
        endswith
        floor
        format_int
        glob.match
        glob.quote_meta
        hex.decode
        hex.encode
        indexof
        indexof_n
        intersection
        is_array
        is_boolean
        is_null
        is_number
        is_object
        is_set
        is_string
        json.filter
        json.is_valid
        json.marshal
        json.marshal_with_options
        json.match_schema
        json.remove
        json.unmarshal
        json.verify_schema
        lower
        max
        min
        net.cidr_contains
        net.cidr_expand
        net.cidr_is_valid
        numbers.range
        numbers.range_step
        object.filter
        object.get
        object.keys
        object.remove
        object.subset
        object.union
        object.union_n
        product
        rand.intn
        regex.find_all_string_submatch_n
        regex.find_n
        regex.is_valid
        regex.match
        regex.replace
        regex.split
        regex.template_match
        replace
        round
        semver.compare
        semver.is_valid
        sort
        split
        sprintf
        startswith
        strings.any_prefix_match
        strings.any_suffix_match
        strings.count
        strings.replace_n
        strings.reverse
        substring
        sum
        time.add_date
        time.clock
        time.date
        time.diff
        time.format
        time.now_ns
        time.parse_duration_ns
        time.parse_ns
        time.parse_rfc3339_ns
        time.weekday
        to_number
        trace
        trim
        trim_left
        trim_prefix
        trim_right
        trim_space
        trim_suffix
        type_name
        union
        units.parse
        units.parse_bytes
        upper
        urlquery.decode
        urlquery.decode_object
        urlquery.encode
        urlquery.encode_object
        uuid.parse
        uuid.rfc4122"#]]
    .assert_eq(&names.join("\n"));
}
