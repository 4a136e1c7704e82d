git init --quiet
git config user.name tester
git config user.email tester@example.org
echo text > README
git add README
git commit --quiet --message first
git log --format=%s
git ls-files
