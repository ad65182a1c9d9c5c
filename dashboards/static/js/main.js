// The page: signs in, asks what rig this is, then follows the live feed and hands each part what concerns it.

import { call } from "./api.js";
import { beginAlarms, showAlarms } from "./alarms.js";
import { Charts } from "./charts.js";
import { beginDecisions } from "./decisions.js";
import { signIn } from "./dialog.js";
import { byId } from "./dom.js";
import { Faults } from "./faults.js";
import { Feed } from "./feed.js";
import { showGrade } from "./grade.js";
import { handle } from "./handling.js";
import { chooseTheme, Header } from "./header.js";
import { beginJournal } from "./journal.js";
import { showLedger } from "./ledger.js";
import { Protocol } from "./protocol.js";
import { Raster } from "./raster.js";
import { Schematic } from "./schematic/view.js";
import { showViability } from "./viability.js";
import { useZone } from "./words.js";

const AGAIN_MS = 1000;

/** A link's token stands behind the #, so that no server and no log sees it; it leaves the address bar at once. */
async function tokenOfLink() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  await call("POST", "/api/session", undefined, { token }).catch(() => null);
}

async function rigOrSignIn() {
  for (;;) {
    try {
      return await call("GET", "/api/rig", undefined, { quiet: true });
    } catch (failure) {
      if (failure.status === 401) await signIn((token) => call("POST", "/api/session", undefined, { token, quiet: true }));
      else await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}

async function begin() {
  chooseTheme();
  await tokenOfLink();
  const rig = await rigOrSignIn();
  useZone(rig.time_zone);
  const { protocols } = await call("GET", "/api/protocols");
  const mayOperate = rig.role !== "viewer";
  const header = new Header(rig, mayOperate);
  beginAlarms(mayOperate);
  let volumes = {};
  const enter = mayOperate ? (name, deed) => handle(rig.schematic.vessels.find((each) => each.name === name), volumes[name], deed) : null;
  const schematic = new Schematic(rig, enter);
  const charts = new Charts(rig);
  const protocol = new Protocol(protocols, mayOperate);
  const raster = new Raster(byId("raster"), rig.electrodes);
  beginJournal();
  beginDecisions();
  if (rig.faults) new Faults(mayOperate);
  measureAbove();
  document.body.classList.add("ready");
  const feed = new Feed(
    (state, changes) => {
      volumes = state.volumes;
      header.update(state);
      schematic.update(state);
      charts.live(state);
      if ("run" in changes) protocol.update(state.run);
      if ("alarms" in changes || "set_aside" in changes) showAlarms(state.alarms, state.set_aside, enter);
      if ("ledger" in changes) showLedger(state.ledger);
      if ("grade" in changes) showGrade(state.grade);
      if ("viability" in changes) showViability(state.viability);
      raster.take(changes.spikes, Boolean(changes.whole), state.nerves);
    },
    (status) => {
      header.link(status);
      if (status === "refused") location.reload();
    },
  );
  window.choroid = { feed };
}

/** The columns fill what the head and alarms leave of the window. */
function measureAbove() {
  const above = [document.querySelector(".head"), byId("alarm-list"), byId("emergency"), byId("fault-banner")];
  const measure = () => document.documentElement.style.setProperty("--above", `${above.reduce((sum, each) => sum + each.offsetHeight, 0)}px`);
  const observer = new ResizeObserver(measure);
  above.forEach((each) => observer.observe(each));
}

begin();
