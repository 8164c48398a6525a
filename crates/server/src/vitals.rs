//! Metrics about the process, its disk and its certificate. Those of the process exist on Linux only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use metrics::Gauge;

use crate::environment::Environment;
use crate::listener::Certificates;
use crate::metrics::{MetricsRegistry, table};

/// Ticks per second in `/proc/self/stat`, on every platform that we know.
const TICKS: f64 = 100.0;

/// What a disk has, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disk {
    /// What we may still write.
    pub(crate) free: u64,
    pub(crate) size: u64,
}

impl Disk {
    /// The disk of a folder; none if it cannot be asked.
    #[cfg(unix)]
    pub(crate) fn of(folder: &Path) -> Option<Self> {
        let found = rustix::fs::statvfs(folder).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(Self { free: bytes(found.f_bavail), size: bytes(found.f_blocks) })
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_folder: &Path) -> Option<Self> {
        None
    }
}

/// The gauges, and where their values come from.
pub(crate) struct Vitals {
    /// The folder of the server's data.
    folder: Option<PathBuf>,
    certificates: Option<Arc<Certificates>>,
    disk: Option<[Gauge; 2]>,
    expiry: Option<Gauge>,
    /// Memory, processor time, open files, their limit.
    process: Option<[Gauge; 4]>,
}

impl Vitals {
    pub(crate) fn new(
        folder: Option<PathBuf>,
        certificates: Option<Arc<Certificates>>,
        environment: &Environment,
        registry: &MetricsRegistry,
    ) -> Self {
        registry.build_info();
        let started = registry.gauge(&table::PROCESS_START);
        started.set(environment.now().0 as f64);
        let disk = folder
            .as_ref()
            .map(|_| [registry.gauge(&table::DISK_FREE), registry.gauge(&table::DISK_SIZE)]);
        let expiry = certificates.as_ref().map(|_| registry.gauge(&table::CERTIFICATE_EXPIRY));
        let process = Process::read().map(|_| {
            [
                registry.gauge(&table::PROCESS_MEMORY),
                registry.gauge(&table::PROCESS_CPU),
                registry.gauge(&table::PROCESS_FILES),
                registry.gauge(&table::PROCESS_MAX_FILES),
            ]
        });
        Self { folder, certificates, disk, expiry, process }
    }

    /// Measures everything.
    pub(crate) fn measure(&self) {
        if let (Some([free, size]), Some(found)) =
            (&self.disk, self.folder.as_deref().and_then(Disk::of))
        {
            free.set(found.free as f64);
            size.set(found.size as f64);
        }
        if let (Some(gauge), Some(certificates)) = (&self.expiry, &self.certificates) {
            gauge.set(certificates.expires() as f64);
        }
        if let (Some([memory, cpu, files, max_files]), Some(found)) =
            (&self.process, Process::read())
        {
            memory.set(found.memory);
            cpu.set(found.cpu);
            files.set(found.files);
            max_files.set(found.max_files);
        }
    }
}

/// What the system says about this process.
struct Process {
    memory: f64,
    cpu: f64,
    files: f64,
    max_files: f64,
}

impl Process {
    fn read() -> Option<Self> {
        let text = |name: &str| std::fs::read_to_string(Path::new("/proc/self").join(name)).ok();
        let files = std::fs::read_dir("/proc/self/fd").ok()?.count();
        Some(Self {
            memory: resident(&text("status")?)?,
            cpu: cpu(&text("stat")?)?,
            files: files as f64,
            max_files: max_files(&text("limits")?)?,
        })
    }
}

/// The line `VmRSS:  123 kB` of `/proc/self/status`.
fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// User and system time of `/proc/self/stat`: the 14th and 15th field. The second one is the name, in
/// parentheses, and may hold anything.
fn cpu(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11).map(str::parse::<f64>);
    Some((fields.next()?.ok()? + fields.next()?.ok()?) / TICKS)
}

/// The soft limit in the line `Max open files  1024  4096  files` of `/proc/self/limits`.
fn max_files(limits: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(f64::INFINITY),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_the_system_are_understood() {
        assert_eq!(resident("VmPeak:\t 9 kB\nVmRSS:\t    12 kB\n"), Some(12.0 * 1024.0));
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(cpu(stat), Some(3.0));
        assert_eq!(
            max_files("Max cpu time  1 2 s\nMax open files    1024   4096   files\n"),
            Some(1024.0)
        );
        assert_eq!(resident("VmRSS: many"), None);
        assert_eq!(cpu("7 (a) S 1"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_answers() {
        let found = Process::read().unwrap();
        assert!(found.memory > 0.0 && found.files > 2.0 && found.max_files >= found.files);
        let disk = Disk::of(Path::new("/")).unwrap();
        assert!(disk.size > 0 && disk.free <= disk.size, "{disk:?}");
        assert!(Disk::of(Path::new("/there is no such folder")).is_none());
    }
}
