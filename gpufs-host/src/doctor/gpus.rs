//! GPUs: what the bus has, what the driver says, and what of that belongs together.

use std::fs;
use std::path::Path;

/// PCI's numbers for the makers of GPUs, and for the classes of devices that compute or show pictures.
const MAKERS: [(&str, &str); 2] = [("0x10de", "NVIDIA"), ("0x1002", "AMD")];
const CLASSES: [&str; 3] = ["0x0300", "0x0302", "0x1200"];

/// GPUs and their drivers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Gpus {
    /// NVIDIA's driver.
    pub driver: Driver,
    /// Those that the bus has (sysfs) or the driver names.
    pub gpus: Vec<GpuReport>,
    /// Whether the machine has an IOMMU in use (`/sys/class/iommu`).
    pub has_iommu: bool,
}

/// Whether NVIDIA's driver can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The newest CUDA that it knows, as `cuDriverGetVersion` says it: 13000 for 13.0.
    Works(i32),
    /// Why it cannot be used.
    Refused(String),
    /// This gpufs was built without its part for NVIDIA GPUs.
    NotBuilt,
}

/// A GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GpuReport {
    /// Its address on the bus: `0000:3b:00.0`.
    pub address: String,
    /// Its maker's name.
    pub maker: &'static str,
    /// What the driver says of it, if the driver knows it.
    pub seen: Option<Seen>,
    /// Its link, if the bus tells.
    pub link: Option<Link>,
    /// How the IOMMU translates its accesses, if it does: `DMA`, `DMA-FQ`, `identity`.
    pub iommu: Option<String>,
}

/// What the driver says of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// The number under which a session opens it.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Its architecture: 90 for sm_90.
    pub architecture: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

/// The PCI Express link of a device. An idle GPU lowers its speed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Link {
    /// The speed of a lane now, in the words of sysfs: `32.0 GT/s PCIe`.
    pub speed: String,
    /// The speed that the device could have.
    pub speed_max: String,
    /// Lanes now.
    pub width: u32,
    /// Lanes that the device could have.
    pub width_max: u32,
}

impl Gpus {
    /// Looks at the machine whose files are below `root`, and asks this process's driver.
    pub(super) fn look(root: &Path) -> Self {
        Self::of(root, ask_nvidia())
    }

    fn of(root: &Path, driver: (Driver, Vec<(String, Seen)>)) -> Self {
        let (driver, seen) = driver;
        let mut gpus = on_the_bus(root);
        for (address, seen) in seen {
            match gpus.iter_mut().find(|gpu| gpu.address == address) {
                Some(gpu) => gpu.seen = Some(seen),
                None => {
                    let known =
                        GpuReport { address, maker: "NVIDIA", seen: Some(seen), ..GpuReport::default() };
                    gpus.push(known);
                }
            }
        }
        let iommus = fs::read_dir(root.join("sys/class/iommu"));
        Self { driver, gpus, has_iommu: iommus.is_ok_and(|mut iommus| iommus.next().is_some()) }
    }
}

fn on_the_bus(root: &Path) -> Vec<GpuReport> {
    let Ok(devices) = fs::read_dir(root.join("sys/bus/pci/devices")) else { return Vec::new() };
    let mut gpus: Vec<_> = devices
        .flatten()
        .filter_map(|device| {
            let folder = device.path();
            let class = text(&folder, "class")?;
            let vendor = text(&folder, "vendor")?;
            let (_, maker) = MAKERS.into_iter().find(|(number, _)| *number == vendor)?;
            CLASSES.iter().any(|wanted| class.starts_with(wanted)).then(|| GpuReport {
                address: device.file_name().to_string_lossy().into_owned(),
                maker,
                seen: None,
                link: link(&folder),
                iommu: text(&folder, "iommu_group/type"),
            })
        })
        .collect();
    gpus.sort_by(|a, b| a.address.cmp(&b.address));
    gpus
}

fn text(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned())
}

fn link(folder: &Path) -> Option<Link> {
    let lanes = |name| text(folder, name)?.parse().ok();
    Some(Link {
        speed: text(folder, "current_link_speed")?,
        speed_max: text(folder, "max_link_speed")?,
        width: lanes("current_link_width")?,
        width_max: lanes("max_link_width")?,
    })
}

#[cfg(feature = "cuda")]
fn ask_nvidia() -> (Driver, Vec<(String, Seen)>) {
    match crate::cuda::survey() {
        Err(error) => (Driver::Refused(error.to_string()), Vec::new()),
        Ok((version, gpus)) => {
            let seen = gpus.into_iter().map(|gpu| {
                let crate::cuda::Found { ordinal, name, architecture, memory_bytes, address } = gpu;
                (address, Seen { ordinal, name, architecture, memory_bytes })
            });
            (Driver::Works(version), seen.collect())
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn ask_nvidia() -> (Driver, Vec<(String, Seen)>) {
    (Driver::NotBuilt, Vec::new())
}

#[cfg(test)]
impl Gpus {
    /// A machine with a GPU on half of its lanes, and no driver.
    pub(super) fn without_driver() -> Self {
        let link = Link {
            speed: "32.0 GT/s PCIe".into(),
            speed_max: "32.0 GT/s PCIe".into(),
            width: 8,
            width_max: 16,
        };
        let gpu = GpuReport {
            address: "0000:3b:00.0".into(),
            maker: "NVIDIA",
            link: Some(link),
            ..GpuReport::default()
        };
        Self { driver: Driver::Refused("libcuda.so was not found".into()), gpus: vec![gpu], has_iommu: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_found_on_the_bus_and_joined_with_what_the_driver_says() {
        let root = std::env::temp_dir().join(format!("gpufs-doctor-{}", std::process::id()));
        let device = |address: &str, files: &[(&str, &str)]| {
            let folder = root.join("sys/bus/pci/devices").join(address);
            fs::create_dir_all(folder.join("iommu_group")).unwrap();
            for (name, text) in files {
                fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
        };
        device("0000:00:1f.0", &[("class", "0x060100"), ("vendor", "0x8086")]);
        device("0000:3b:00.1", &[("class", "0x040300"), ("vendor", "0x10de")]);
        device(
            "0000:3b:00.0",
            &[
                ("class", "0x030200"),
                ("vendor", "0x10de"),
                ("current_link_speed", "2.5 GT/s PCIe"),
                ("max_link_speed", "32.0 GT/s PCIe"),
                ("current_link_width", "8"),
                ("max_link_width", "16"),
                ("iommu_group/type", "DMA-FQ"),
            ],
        );
        fs::create_dir_all(root.join("sys/class/iommu/dmar0")).unwrap();
        let said = Seen { name: "a GPU".into(), architecture: 90, ..Seen::default() };
        let driver = (
            Driver::Works(13000),
            vec![("0000:3b:00.0".to_owned(), said.clone()), ("0001:00:00.0".to_owned(), said)],
        );
        let found = Gpus::of(&root, driver);
        fs::remove_dir_all(&root).unwrap();
        assert!(found.has_iommu);
        let [gpu, other] = &found.gpus[..] else { panic!("two GPUs: {found:?}") };
        assert_eq!((gpu.maker, gpu.iommu.as_deref()), ("NVIDIA", Some("DMA-FQ")));
        assert_eq!(gpu.link.as_ref().map(|link| (link.width, link.width_max)), Some((8, 16)));
        assert_eq!(gpu.seen.as_ref().map(|seen| seen.architecture), Some(90));
        assert_eq!((other.address.as_str(), &other.link), ("0001:00:00.0", &None));
    }
}
