'use strict';
// Names of TooLoo for the SDK: `tooloo.llm`, `tooloo.storage` and `tooloo.visual`.

const ringfence = require('./ringfence.js');

const llm = {
  generate: ({ prompt, ...options }) => ringfence.llm.generate(prompt, options),
  generateCode: (prompt, language) => ringfence.llm.generateCode(prompt, language),
};

const storage = {
  saveArtifact({ title, content, type, description, tags }) {
    return ringfence.storage.save(title, content, { kind: type, description, tags });
  },
  updateArtifact: (id, content, changes) => ringfence.storage.update(id, content, changes),
  getArtifact: (id) => ringfence.storage.get(id),
  search: ({ type, tag, title } = {}) => ringfence.storage.search({ kind: type, tag, title }),
};

const visual = {
  renderDiagram: (source, language) => ringfence.visual.renderDiagram(source, language),
  generateImage: (prompt) => ringfence.tools.call('image_generate', { prompt }),
};

module.exports = { llm, storage, visual };
