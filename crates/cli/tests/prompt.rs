//! The tool at a terminal: the SQL prompt, Ctrl-C, and tables as wide as the screen.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::path::Path;
use std::process::Command;

use common::{run, succeed};
use moirai::runtime::Stopwatch;
use rexpect::session::{PtySession, spawn_command};

/// The tool on a pseudo terminal.
fn at_a_terminal(folder: &Path, arguments: &[&str]) -> PtySession {
    let mut command = Command::new(env!("CARGO_BIN_EXE_moirai"));
    command.current_dir(folder).args(arguments).env("XDG_STATE_HOME", folder).env("TERM", "dumb");
    spawn_command(command, Some(60_000)).unwrap()
}

/// The exit status of the tool, which ends.
fn status(mut session: PtySession) -> i32 {
    session.exp_eof().unwrap();
    // As in `Exited(Pid(7), 0)`; the type has no name outside.
    let ended = format!("{:?}", session.process_mut().wait().unwrap());
    let status = ended.strip_prefix("Exited(").and_then(|rest| rest.rsplit_once(", "));
    status.unwrap().1.trim_end_matches(')').parse().unwrap()
}

#[test]
fn the_prompt_has_commands_and_goes_on_over_lines() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["table", "load", "--store=file:s?size=64MiB", "--tpch", "0.001"]);
    let mut prompt = at_a_terminal(folder, &["sql", "--store=file:s"]);
    prompt.exp_string("moirai> ").unwrap();
    prompt.send_line("\\d").unwrap();
    prompt.exp_string("lineitem").unwrap();
    prompt.send_line("\\d nation").unwrap();
    prompt.exp_string("n_nationkey").unwrap();
    prompt.send_line("select count(*) as nations").unwrap();
    prompt.exp_string("-> ").unwrap();
    prompt.send_line("from nation; select null as nothing;").unwrap();
    prompt.exp_string("| 25").unwrap();
    prompt.exp_string("NULL").unwrap();
    prompt.send_line("select * from missing;").unwrap();
    // Tables have no other names than their own.
    let error = prompt.exp_regex("table '[a-z.]*' not found").unwrap().1;
    assert_eq!(error, "table 'missing' not found");
    prompt.send_line("\\x").unwrap();
    prompt.send_line("select 7 as seven;").unwrap();
    prompt.exp_string("seven | 7").unwrap();
    prompt.send_line("help").unwrap();
    prompt.exp_string("\\timing").unwrap();
    prompt.send_line("quit").unwrap();
    assert_eq!(status(prompt), 0);
}

/// What is typed ahead, or pasted, is answered line by line.
#[test]
fn lines_that_come_at_once_are_all_answered() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["table", "load", "--store=file:s?size=64MiB", "--tpch", "0.001"]);
    let mut prompt = at_a_terminal(folder, &["sql", "--store=file:s"]);
    prompt.exp_string("moirai> ").unwrap();
    prompt
        .send("select 11 as a;\rselect 22 as b;\rselect count(*)\rfrom nation\r;\r\\q\r")
        .unwrap();
    prompt.flush().unwrap();
    for answer in ["| 11", "| 22", "| 25"] {
        prompt.exp_string(answer).unwrap();
    }
    assert_eq!(status(prompt), 0);
}

/// A statement that would run for hours ends within a second of Ctrl-C, and the prompt goes on.
#[test]
fn ctrl_c_cancels_a_statement() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["table", "load", "--store=file:s?size=64MiB", "--tpch", "0.01"]);
    let mut prompt = at_a_terminal(folder, &["sql", "--store=file:s"]);
    prompt.exp_string("moirai> ").unwrap();
    for statement in [
        "select count(*) from lineitem a, lineitem b, lineitem c where a.l_tax + b.l_tax <> c.l_tax;",
        "select max(a.l_comment || b.o_comment || c.o_comment) from lineitem a, orders b, orders c;",
    ] {
        prompt.send_line(statement).unwrap();
        moirai::runtime::block_on_real(
            0,
            moirai::runtime::sleep(moirai::units::Nanos(1_500_000_000)),
        );
        let watch = Stopwatch::start();
        prompt.send_control('c').unwrap();
        prompt.exp_string("cancelled").unwrap();
        let seconds = watch.elapsed().as_s();
        // The limit is a second; a busy machine gets some more.
        assert!(seconds < 5.0, "{seconds} s");
        eprintln!("cancelled after {seconds:.3} s");
    }
    prompt.send_line("select 41 + 1 as answer;").unwrap();
    prompt.exp_string("| 42").unwrap();
    prompt.send_line("\\q").unwrap();
    assert_eq!(status(prompt), 0);
}

/// A join that compares much and finds nothing stops, too: the prompt answers at once after it.
#[test]
fn ctrl_c_stops_a_join_that_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let create = "create table t (a int primary key, b int)";
    succeed(folder, &["sql", "--store=file:s?size=256MiB", create]);
    let insert = "insert into t select value, value from generate_series(1, 5000)";
    succeed(folder, &["sql", "--store=file:s", insert]);
    let mut prompt = at_a_terminal(folder, &["sql", "--store=file:s"]);
    prompt.exp_string("moirai> ").unwrap();
    prompt.send_line("select count(*) from t a, t b, t c where a.b + b.b + c.b = 5;").unwrap();
    moirai::runtime::block_on_real(0, moirai::runtime::sleep(moirai::units::Nanos(3_000_000_000)));
    let watch = Stopwatch::start();
    prompt.send_control('c').unwrap();
    prompt.exp_string("cancelled").unwrap();
    prompt.send_line("select 41 + 1 as answer;").unwrap();
    prompt.exp_string("| 42").unwrap();
    let seconds = watch.elapsed().as_s();
    // Without yields it is minutes.
    assert!(seconds < 20.0, "{seconds} s");
    eprintln!("cancelled after {seconds:.3} s");
    prompt.send_line("\\q").unwrap();
    assert_eq!(status(prompt), 0);
}

/// An answer that is cut off while it is printed leaves nothing in front of the next one.
#[test]
fn ctrl_c_ends_an_answer_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeed(folder, &["table", "load", "--store=file:s?size=64MiB", "--tpch", "0.001"]);
    for format in ["csv", "json", "table", "expanded"] {
        let mut prompt = at_a_terminal(folder, &["sql", "--store=file:s", "--format", format]);
        prompt.exp_string("moirai> ").unwrap();
        prompt.send_line("select value as long_name from generate_series(1, 1000000000);").unwrap();
        prompt.exp_string("long_name").unwrap();
        prompt.exp_regex("[0-9]{5}").unwrap();
        prompt.send_control('c').unwrap();
        prompt.exp_string("\r\nthe statement is cancelled").unwrap();
        prompt.send_line("select 41 + 1 as answer;").unwrap();
        // What was typed has no echo here.
        let begin = match format {
            "csv" => "moirai> answer\r\n42\r\n",
            "json" => "moirai> [{\"answer\":42}]\r\n",
            "table" => "moirai> +--------+\r\n| answer |\r\n",
            _ => "moirai> -[ RECORD 1 ]\r\nanswer | 42\r\n",
        };
        prompt.exp_string(begin).unwrap();
        prompt.send_line("\\q").unwrap();
        assert_eq!(status(prompt), 0);
    }
}

#[test]
fn ctrl_c_leaves_whole_tables_and_the_load_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let load = ["table", "load", "--store=file:s?size=1GiB", "--tpch", "0.05"];
    let mut loading = at_a_terminal(folder, &load);
    // The line of the table, since a terminal that is dumb gets no bar.
    loading.exp_string("partsupp ").unwrap();
    loading.send_control('c').unwrap();
    let said = loading.exp_regex("interrupted: nothing of table [a-z]+ is left").unwrap().1;
    loading.exp_string("--if-not-exists").unwrap();
    assert_eq!(status(loading), 130, "{said}");
    let listed = || {
        let listed = succeed(folder, &["table", "list", "--store=file:s", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let tables = listed.as_array().unwrap().iter();
        tables.map(|table| table["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = listed();
    assert!(before.contains(&"partsupp".to_owned()) && before.len() < 8, "{before:?} {said}");
    // Without a word of what to do with tables that exist the command is refused.
    let (refused, _, error) = run(folder, &load);
    assert_eq!(refused, Some(1));
    assert!(error.contains("--replace") && error.contains("--if-not-exists"), "{error}");
    let (repeated, _, error) = run(folder, &[&load[..], &["--if-not-exists"]].concat());
    assert_eq!(repeated, Some(0), "{error}");
    assert_eq!(listed().len(), 8);
    // One that is replaced stays until the new one is complete.
    let mut replacing = at_a_terminal(folder, &[&load[..], &["--replace"]].concat());
    replacing.exp_string("partsupp ").unwrap();
    replacing.send_control('c').unwrap();
    replacing.exp_regex("interrupted: table [a-z]+ is as it was; loaded: region, ").unwrap();
    assert_eq!(status(replacing), 130);
    assert_eq!(listed().len(), 8);
    let small = ["table", "load", "--store=file:s", "--tpch", "0.001", "--replace"];
    succeed(folder, &small);
    let count = ["sql", "--store=file:s", "--format=csv", "select count(*) as n from orders"];
    assert_eq!(succeed(folder, &count), "n\n1500\n");
}

#[test]
fn tables_fit_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("stty rows 24 cols 80; {} lab list", env!("CARGO_BIN_EXE_moirai"));
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).current_dir(folder.path());
    let mut session = spawn_command(command, Some(60_000)).unwrap();
    // A character for each byte.
    let shown: Vec<u8> = session.exp_eof().unwrap().chars().map(|letter| letter as u8).collect();
    let shown = String::from_utf8(shown).unwrap();
    let widest = shown.lines().map(|line| line.trim_end().chars().count()).max();
    assert!(widest.is_some_and(|widest| (60..=80).contains(&widest)), "{widest:?}\n{shown}");
}
