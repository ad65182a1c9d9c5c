// The page: one live feed in, small views out. No framework, no build step.
import { call, toast } from "./api.js";
import { Charts } from "./charts.js";
import { Protocol } from "./protocol.js";
import { Raster } from "./raster.js";
import { Schematic } from "./schematic.js";
import { alarms, grade, ledger, viability } from "./cards.js";

const $ = (id) => document.getElementById(id);

async function enter() {
  // `choroid run` prints a link with the token behind the #: it never reaches a server log, and leaves the address bar at once.
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", location.pathname);
    await call("POST", "/api/session", undefined, token);
  }
  return call("GET", "/api/rig");
}

function theme() {
  const kept = localStorage.getItem("theme");
  const light = kept ? kept === "light" : matchMedia("(prefers-color-scheme: light)").matches;
  document.documentElement.dataset.theme = light ? "light" : "dark";
  $("theme").onclick = () => {
    const next = document.documentElement.dataset.theme === "light" ? "dark" : "light";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
  };
}

function heading(rig) {
  document.title = `${rig.name} · Choroid`;
  $("rig-name").textContent = rig.name;
  const o = rig.organoid;
  $("rig-about").textContent = `${o.count} organoids, ${o.diameter_mm} mm, day ${Math.round(o.age_d)}`;
}

function mode(rig, speed) {
  const badge = $("mode");
  badge.className = rig.simulated ? "badge" : "badge live";
  badge.textContent = rig.simulated ? `SIMULATED${speed ? ` · ${speed}×` : ""}` : rig.mixed ? "LIVE + SIMULATED PARTS" : "LIVE";
  $("speed-box").hidden = !speed;
  if (speed && document.activeElement !== $("speed")) {
    const select = $("speed");
    if (![...select.options].some((option) => Number(option.value) === speed)) select.add(new Option(`${speed}×`, speed));
    select.value = String(speed);
  }
}

function stopButton(message) {
  const button = $("estop");
  button.textContent = message.emergency ? "Reset stop" : "Stop everything";
  button.onclick = async () => {
    if (message.emergency) {
      const reason = prompt(`Stopped by ${message.emergency}.\nWhy is it safe to go on?`);
      if (reason) await call("POST", "/api/estop/reset", { reason });
    } else if (confirm("Stop every pump but the basal circulation, the heater and all transfers?")) {
      await call("POST", "/api/estop", { reason: "emergency stop on the page" });
    }
  };
}

async function start() {
  theme();
  let rig;
  try {
    rig = await enter();
  } catch {
    $("link").textContent = "not signed in";
    $("link").className = "link lost";
    return;
  }
  heading(rig);
  const schematic = new Schematic($("schematic"), rig);
  const charts = new Charts($("charts"), $("window"), rig);
  const protocol = new Protocol(rig);
  const raster = new Raster($("raster"), rig.electrodes);
  await protocol.load();
  $("speed").onchange = () => call("PUT", "/api/speed", { speed: Number($("speed").value) });
  charts.begin();

  let wait = 500;
  const listen = () => {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
    socket.onmessage = (event) => {
      const message = JSON.parse(event.data);
      if (message.error) return toast(message.error);
      wait = 500;
      $("link").textContent = message.health ? "live" : "control loop stands still";
      $("link").className = message.health ? "link ok" : "link lost";
      $("clock").textContent = `${message.state.utc.slice(0, 10)}  ${message.state.utc.slice(11, 19)}`;
      mode(rig, message.speed);
      stopButton(message);
      schematic.update(message.state);
      charts.live(message.state);
      protocol.update(message.run);
      alarms($("alarms"), message.alarms);
      raster.update(message.spikes);
      const n = message.nerves;
      $("nerves").textContent = n ? `${n.active_electrodes} of ${n.electrodes} electrodes active · ${n.firing_rate_hz.toFixed(2)} Hz` : "the electrode engine is not there yet";
      if (message.ledger) ledger($("ledger"), message.ledger);
      if ("grade" in message) grade(message.grade);
      if ("viability" in message) viability(message.viability);
    };
    socket.onclose = () => {
      $("link").textContent = "connection lost, trying again";
      $("link").className = "link lost";
      setTimeout(listen, wait);
      wait = Math.min(wait * 2, 8000);
    };
  };
  listen();
}

start();
