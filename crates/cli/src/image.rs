//! `ringfence image`: root file systems for `--root`.

use std::{fmt::Write, process::ExitCode};

use ringfence_sandbox::image::{
    ImageInfo, ImageListing, ImageSource, ImageStore, Import, LIMITS, Progress,
};
use ringfence_types::Bytes;

use crate::{
    cli::{DataArgs, ImageCommand},
    clock, config, exit,
    failure::Failure,
    print,
};

pub(crate) fn image(command: ImageCommand) -> Result<ExitCode, Failure> {
    match command {
        ImageCommand::Import { name, source, copy, replace, json, data } => {
            let name = name.parse()?;
            let created_at = clock::now();
            let wanted = Import { name, source, copy, replace, created_at, limits: LIMITS };
            import(&wanted, json, data).map_err(|failure| failure.in_json(json))?;
        }
        ImageCommand::List { json, data } => list(json, data)?,
        ImageCommand::Rm { name, data } => store(data)?.remove(&name.parse()?)?,
    }
    Ok(ExitCode::from(exit::DONE))
}

fn store(data: DataArgs) -> Result<ImageStore, Failure> {
    Ok(ImageStore::open(&config::data_dir(data.data).join("images"))?)
}

fn import(import: &Import, json: bool, data: DataArgs) -> Result<(), Failure> {
    let line = print::Progress::new();
    let imported = store(data)?.import(import, &mut |progress| line.show(&doing(&progress)));
    drop(line);
    let info = imported.map_err(|error| explain(error, import))?;
    if json {
        print::line(&serde_json::to_string(&info).unwrap_or_default());
        return Ok(());
    }
    for note in &info.notes {
        print::note(&format!("note: {note}\n"));
    }
    print::note(&format!("imported `{}`: {}\n", info.name, contents(&info)));
    Ok(())
}

fn explain(error: ringfence_sandbox::image::Error, import: &Import) -> Failure {
    let is_taken = error.code() == "image_exists";
    let failure = Failure::from(error);
    match is_taken {
        true => failure.hint(format!(
            "replace it: ringfence image import --replace {} {}",
            import.name,
            import.source.display()
        )),
        false => failure,
    }
}

fn doing(progress: &Progress) -> String {
    match progress {
        Progress::Verified { digest, bytes } => format!("verified {digest} ({})", Bytes(*bytes)),
        Progress::Layer { number, of } => format!("layer {number} of {of}"),
        Progress::Written { entries, bytes } => format!("{entries} files, {}", Bytes(*bytes)),
    }
}

fn contents(info: &ImageInfo) -> String {
    match &info.source {
        ImageSource::Directory { path, .. } => format!("uses {} where it is", path.display()),
        _ => format!("{} files, {}", info.entries, Bytes(info.bytes)),
    }
}

fn list(json: bool, data: DataArgs) -> Result<(), Failure> {
    let ImageListing { images, broken } = store(data)?.list()?;
    for error in &broken {
        print::note(&format!("warning: {error}; remove it: ringfence image rm {}\n", error.what));
    }
    if json {
        for image in &images {
            print::line(&serde_json::to_string(image).unwrap_or_default());
        }
    } else if images.is_empty() && broken.is_empty() {
        print::note(
            "no images yet; import one: ringfence image import NAME DIRECTORY-OR-ARCHIVE\n",
        );
    } else if !images.is_empty() {
        print::data(table(&images).as_bytes());
    }
    Ok(())
}

fn table(images: &[ImageInfo]) -> String {
    let width = images.iter().map(|image| image.name.as_str().len()).max().unwrap_or(0).max(4);
    let mut text = format!("{:<width$}  {:<20}  {:<9}  CONTENTS\n", "NAME", "IMPORTED", "FROM");
    for image in images {
        let from = match image.source {
            ImageSource::Directory { .. } => "directory",
            ImageSource::Copy => "copy",
            ImageSource::Tarball => "tarball",
            ImageSource::Oci => "oci",
            ImageSource::Docker => "docker",
        };
        let (name, at) = (image.name.as_str(), &image.created_at);
        let _ = writeln!(text, "{name:<width$}  {at:<20}  {from:<9}  {}", contents(image));
    }
    text
}
