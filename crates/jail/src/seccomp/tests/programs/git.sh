git init --quiet
git config user.name nobody
git config user.email nobody@example.org
echo text > README
git add README
git commit --quiet --message first
git log --format=%s
git ls-files
