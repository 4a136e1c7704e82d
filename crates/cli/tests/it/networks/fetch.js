const http = require('http');
const server = http.createServer((request, response) => response.end('hello ' + request.url));
server.listen(0, '127.0.0.1', async () => {
  const address = `http://127.0.0.1:${server.address().port}`;
  console.log('fetch', await (await fetch(address + '/a')).text());
  http.get(address + '/b', response => response.on('data', data => { console.log('get', `${data}`); server.close(); }));
});
