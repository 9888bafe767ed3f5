//! Whether a drive's defect lists agree with each other and with its translations: they decide which sectors blocks leave out,
//! and a list that is wrong makes another sparing scheme of them.

use moirai_storage::{Defect, Sector};
use moirai_units::{Lbn, Location};

use super::{DEFECTS_ASKED, Survey};
use crate::error::Result;

impl Survey<'_, '_> {
    /// Asks what lies at listed defects: no block does. Those at places that the drive does not have are left out and doubted, since
    /// some drives list what they found on cylinders of their own.
    ///
    /// # Errors
    /// A sector that is in both lists, and one that holds a block.
    pub(super) async fn check_defects(&mut self) -> Result<()> {
        let [primary, grown] = [&mut self.defects.primary, &mut self.defects.grown].map(|list| {
            list.sort_unstable();
            list.dedup();
            list.clone()
        });
        // What was bad from the start never held a block that could be moved from there.
        if let Some(both) = grown.iter().find(|defect| primary.binary_search(defect).is_ok()) {
            return Err(self.drive.contradiction(format!(
                "it lists {} as bad from the start and as bad since",
                place(both)
            )));
        }
        let mut all: Vec<Defect> = primary.into_iter().chain(grown).collect();
        all.sort_unstable();
        let step = all.len().div_ceil(DEFECTS_ASKED).max(1);
        let asked = all.len().div_ceil(step);
        // In their order.
        let mut elsewhere = Vec::new();
        for defect in all.into_iter().step_by(step) {
            let Defect { cylinder, head, sector } = defect;
            let at = Location { cylinder, head, sector: sector.unwrap_or(0) };
            match self.sector(at).await? {
                // A drive may answer for a bad place with the block that was moved away.
                Some(Sector::Block(lbn)) if self.is_at(lbn, at).await? => {
                    return Err(self.drive.contradiction(format!(
                        "it lists {} as bad, and says that {lbn} lies there",
                        place(&defect)
                    )));
                }
                Some(Sector::Block(_) | Sector::Reserved) => {}
                None => elsewhere.push(defect),
            }
        }
        if let Some(first) = elsewhere.first() {
            self.drive.doubt(format!(
                "of {} defects that were asked for, {} lie where it says that it has no sectors, as {}: they were left out",
                asked,
                elsewhere.len(),
                place(first)
            ));
            for list in [&mut self.defects.primary, &mut self.defects.grown] {
                list.retain(|defect| elsewhere.binary_search(defect).is_err());
            }
        }
        Ok(())
    }

    /// Whether a block is at a place by what the drive says of the block, too.
    async fn is_at(&mut self, lbn: Lbn, at: Location) -> Result<bool> {
        let told = self.locate(lbn).await?;
        Ok(told.location == at && !told.is_moved)
    }
}

fn place(defect: &Defect) -> String {
    let Defect { cylinder, head, sector } = defect;
    let sector = sector.map_or_else(String::new, |sector| format!(", sector {sector}"));
    format!("cylinder {cylinder}, head {head}{sector}")
}
