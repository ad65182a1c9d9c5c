// Talking to the API: errors come with what, cause and next action, and are shown as such.
export async function call(method, path, body, token) {
  const headers = { "Content-Type": "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  let reply;
  try {
    reply = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    toast({ what: "The controller does not answer", cause: "it has ended, or the network is down", action: "look at its terminal" });
    throw new Error("no answer");
  }
  const answer = await reply.json().catch(() => ({}));
  if (!reply.ok) {
    toast(answer.error || { what: `${reply.status} ${reply.statusText}` });
    throw new Error(answer.error ? answer.error.what : String(reply.status));
  }
  return answer;
}

export function toast(problem, good = false) {
  const box = document.createElement("div");
  box.className = good ? "toast good" : "toast";
  const title = document.createElement("b");
  title.textContent = problem.what;
  box.append(title);
  for (const text of [problem.cause && `Likely cause: ${problem.cause}.`, problem.action && `Next: ${problem.action}.`]) {
    if (text) box.append(Object.assign(document.createElement("div"), { textContent: text, className: "small quiet" }));
  }
  document.getElementById("toasts").append(box);
  setTimeout(() => box.remove(), good ? 3000 : 9000);
}

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) name === "text" ? (node.textContent = value) : node.setAttribute(name, value);
  node.append(...children);
  return node;
}
