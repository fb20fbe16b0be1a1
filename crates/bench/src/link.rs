//! It needs root, Linux and iproute2. Without them only the loopback interface is available,
//! without a cap.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::machine::first_line;

/// The node has the first core to itself, the engine the second.
const NODE_CORE: &str = "0";
const ENGINE_CORE: &str = "1";
const PORT: u16 = 9000;
const NODE_IP: &str = "10.77.11.2";
const ENGINE_IP: &str = "10.77.11.1";

/// A link, which is removed on drop.
#[derive(Debug)]
pub struct Link {
    /// The network namespaces of engine and node; `None` for the loopback interface.
    namespaces: Option<[String; 2]>,
    port: u16,
}

impl Link {
    /// Explains why links cannot be capped here; `None` if they can.
    pub fn missing() -> Option<String> {
        if first_line("id -u").as_deref() != Some("0") {
            return Some("a link with a cap needs root (network namespaces)".to_owned());
        }
        let lost: Vec<&str> =
            ["ip", "tc"].into_iter().filter(|program| first_line(&format!("command -v {program}")).is_none()).collect();
        (!lost.is_empty()).then(|| format!("a link with a cap needs iproute2: {} is missing", lost.join(" and ")))
    }

    /// Uses the loopback interface as the link.
    pub fn loopback() -> Result<Self> {
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        Ok(Self { namespaces: None, port })
    }

    /// Creates two namespaces and a pair of devices without a cap.
    pub fn up() -> Result<Self> {
        let id = std::process::id();
        let [engine, node] = [format!("pushdowndb-e{id}"), format!("pushdowndb-n{id}")];
        let link = Self { namespaces: Some([engine.clone(), node.clone()]), port: PORT };
        for name in [&engine, &node] {
            run(&["ip", "netns", "add", name])?;
        }
        run(&["ip", "link", "add", "pdbe", "netns", &engine, "type", "veth", "peer", "name", "pdbn", "netns", &node])?;
        for (name, device, address) in [(&engine, "pdbe", ENGINE_IP), (&node, "pdbn", NODE_IP)] {
            run(&["ip", "-n", name, "addr", "add", &format!("{address}/24"), "dev", device])?;
            run(&["ip", "-n", name, "link", "set", "lo", "up"])?;
            run(&["ip", "-n", name, "link", "set", device, "mtu", "9000", "up"])?;
        }
        Ok(link)
    }

    /// Caps both directions to `mb_per_s`, 10^6 bytes per second; 0 removes the cap. The burst is 5
    /// ms and the queue 100 ms, as in a switch.
    pub fn shape(&self, mb_per_s: u32) -> Result<()> {
        let Some([engine, node]) = &self.namespaces else {
            if mb_per_s > 0 {
                bail!("the loopback has no cap");
            }
            return Ok(());
        };
        for (name, device) in [(engine, "pdbe"), (node, "pdbn")] {
            let tc = ["ip", "netns", "exec", name, "tc", "qdisc"];
            // An error means that there was no cap to remove.
            let _ = run(&[&tc[..], &["del", "dev", device, "root"]].concat());
            if mb_per_s > 0 {
                let mb = u64::from(mb_per_s);
                let rate = format!("{}mbit", mb * 8);
                let (burst, limit) = ((mb * 5_000).max(131_072).to_string(), (mb * 100_000).max(1_000_000).to_string());
                let cap = ["add", "dev", device, "root", "tbf", "rate", &rate, "burst", &burst, "limit", &limit];
                run(&[&tc[..], &cap].concat())?;
            }
        }
        Ok(())
    }

    /// Returns the address of the node.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host(), self.port)
    }

    /// The IP address of the node's side.
    pub fn host(&self) -> &'static str {
        if self.namespaces.is_some() { NODE_IP } else { "127.0.0.1" }
    }

    /// The port of [`Link::address`].
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address of the proxy that makes the node seem distant.
    pub fn far_address(&self) -> String {
        format!("{}:{}", self.host(), self.far_port())
    }

    /// The port of [`Link::far_address`].
    pub fn far_port(&self) -> u16 {
        self.port.checked_add(1).unwrap_or(1 << 15)
    }

    /// A command that runs on the node's side on all cores.
    pub fn beside_node(&self, program: &str) -> Command {
        self.inside(1, program)
    }

    /// A command that runs on the node's side on the node's core.
    pub fn at_node(&self, program: &str) -> Command {
        self.pinned(1, NODE_CORE, program)
    }

    /// A command that runs on the engine's side on the engine's core.
    pub fn at_engine(&self, program: &str) -> Command {
        self.pinned(0, ENGINE_CORE, program)
    }

    /// A command that runs on the engine's side on all cores.
    pub fn unpinned(&self, program: &str) -> Command {
        self.inside(0, program)
    }

    fn pinned(&self, side: usize, core: &str, program: &str) -> Command {
        let mut command = self.inside(side, "taskset");
        command.args(["-c", core, program]);
        command
    }

    fn inside(&self, side: usize, program: &str) -> Command {
        match self.namespaces.as_ref().and_then(|names| names.get(side)) {
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name, program]);
                command
            }
            None => Command::new(program),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for name in self.namespaces.iter().flatten() {
            // Nothing can be done about a namespace that cannot be removed.
            let _ = run(&["ip", "netns", "del", name]);
        }
    }
}

fn run(words: &[&str]) -> Result<()> {
    let (program, arguments) = words.split_first().context("no command")?;
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).output().with_context(|| words.join(" "))?;
    if !output.status.success() {
        bail!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
