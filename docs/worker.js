// Search runs in a worker, and browsers start no worker for a page from the disk: there a hidden frame does its work.
"use strict";
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow, script = inside.document.createElement("script");
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.loaded = new Promise((resolve) => { script.onload = resolve; });
      script.src = url;
      inside.document.body.append(script);
    }
    postMessage(data) {
      this.loaded.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() { this.frame.remove(); }
  };
}
