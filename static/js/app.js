// The console's own code: each module wires one part of the page and does nothing where that part is missing.
// Pages work without it: links lead, forms post. No key and no hover changes anything on the server.

import { startTimes } from "./modules/times.js";
import { startOverlays } from "./modules/overlays.js";
import { startPalette } from "./modules/palette.js";
import { startKeys } from "./modules/keys.js";
import { startRows } from "./modules/rows.js";
import { startLive } from "./modules/live.js";
import { startForms } from "./modules/forms.js";
import { startLost } from "./modules/lost.js";

startTimes();
startOverlays();
startPalette();
startKeys();
startRows();
startLive();
startForms();
startLost();
// On a phone the tabs are wider than the window: the one that is open comes into view.
for (const tab of document.querySelectorAll(".tabs [aria-current]")) {
  const bar = tab.parentElement;
  if (bar.scrollWidth > bar.clientWidth) bar.scrollLeft = tab.offsetLeft - bar.offsetLeft - (bar.clientWidth - tab.offsetWidth) / 2;
}
document.documentElement.dataset.ready = "true";
