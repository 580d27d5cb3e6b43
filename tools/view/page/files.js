// The files that a task has made: pictures as they are, others by name and size. A browser of "runnel ui" can save them; hosts of MCP Apps let no page do
// that.

/** showFiles lists the files of a task, until the signal aborts. */
async function showFiles(taskId, signal, trouble) {
  const {files, more} = await door.call("view_files", {taskId}, signal);
  const items = files.map(file => ({file, li: make("li", {}, nameOf(file), make("span", {className: "facts", textContent: `${size(file.size)} · ${plain(file.mimeType, 60)}`}))}));
  at("files").hidden = !files.length;
  at("files").replaceChildren(...items.map(({li}) => li), ...more ? [make("li", {className: "facts", textContent: `and ${more} more`})] : []);
  for (const {file, li} of items) {
    if (!file.width) continue;
    let blob;
    try {
      blob = await door.file(file, signal);
    } catch (e) {
      if (signal.aborted) throw e;
      continue; // it is gone, or the host reads no files: its name is there
    }
    const src = await new Promise((resolve, reject) => {
      const reader = Object.assign(new FileReader(), {onload: () => resolve(reader.result), onerror: () => reject(reader.error)});
      reader.readAsDataURL(blob);
    });
    signal.throwIfAborted();
    li.prepend(make("img", {src, alt: plain(file.name), width: file.width, height: file.height}));
  }

  function nameOf(file) {
    const name = plain(file.name, 200);
    if (door.app) return make("span", {textContent: name});
    return make("button", {type: "button", textContent: name, title: `Download ${name}`, onclick: async event => {
      event.target.disabled = true;
      try {
        save(await door.file(file, signal), file.name.split("/").at(-1));
      } catch (e) {
        if (!signal.aborted) trouble(e, 10000);
      }
      event.target.disabled = false;
    }});
  }
}

/** save lets the browser store a file. */
function save(blob, name) {
  const url = URL.createObjectURL(blob);
  make("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
