BEGIN TRANSACTION;
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0002');
CREATE TABLE attach (
  attach TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  decided_ns INTEGER NOT NULL,
  launch TEXT NOT NULL,
  rank INTEGER NOT NULL,
  world INTEGER NOT NULL,
  host TEXT NOT NULL,
  engine TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  uid INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  residency TEXT,
  kind TEXT NOT NULL,
  device TEXT NOT NULL,
  decision TEXT NOT NULL,
  reason TEXT,
  detail TEXT NOT NULL,
  tier TEXT,
  asked_digest TEXT,
  asked_key TEXT,
  asked_commit TEXT,
  served_digest TEXT,
  served_commit TEXT,
  mode TEXT,
  state TEXT NOT NULL,
  proof TEXT,
  proof_seq INTEGER,
  ended_ns INTEGER,
  mapped_bytes INTEGER,
  copied_bytes INTEGER,
  map_ms REAL,
  fallback_bytes INTEGER,
  fallback_s REAL,
  idle_bytes INTEGER,
  policy TEXT NOT NULL,
  evidence TEXT NOT NULL,
  decided_by TEXT NOT NULL
) STRICT;
INSERT INTO "attach" VALUES('a-2',13,13,1795987953467247133,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','refuted',16,1795987953467256311,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-3',18,18,1795987953467258495,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795987953493572994,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-5',25,25,1795987953467272248,'l-1',0,2,'[redacted]','test','1',0,'[redacted]','r-2','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unprovable',46,1795987953467278751,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-6',35,35,1795987953475963726,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795987953613306120,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-7',41,41,1795987953493576059,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','granted','unproven',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
CREATE TABLE contradiction (
  seq INTEGER NOT NULL PRIMARY KEY,
  asked_key TEXT NOT NULL,
  weights_digest TEXT NOT NULL,
  spellings TEXT NOT NULL
) STRICT;
INSERT INTO "contradiction" VALUES(16,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','["/models/base"]');
CREATE TABLE event (
  seq INTEGER NOT NULL PRIMARY KEY,
  stream TEXT NOT NULL,
  version INTEGER NOT NULL,
  event_id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  schema INTEGER NOT NULL,
  occurred_ns INTEGER NOT NULL,
  recorded_ns INTEGER NOT NULL,
  late INTEGER NOT NULL CHECK (late IN (0, 1)),
  payload TEXT,
  salt BLOB,
  payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
  chain BLOB NOT NULL CHECK (length(chain) = 32),
  UNIQUE (stream, version)
) STRICT;
INSERT INTO "event" VALUES(39,'ledger',5,'bda3aa5de734462bbfbd8872c388a413','segment.opened',1,1795987953484497621,1795987953484556404,0,'{"state":{"attach/a-3":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"attach/a-6":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":38,"root":"ccd07e1330ad7ca0a7d4d92eef889315b575ba50ce37547ada2c1fee0ba78be8","frontier":["1a72221e23fe2f837aba9670a72820fa8574f2e799e794b06f01cd795d1fc45f","031a28c31c71391b94feb3957e9ca447e06aa0f756ea976bbec4aed26f762ac1","a231ba22a4533134205899fe20f9861f37c3ea1507a7f00ad3923ef2c52521c7"],"chain":"5cb1d389582790418615fb09956056ed7c73d02f7410ad6ed307d6dc21c30c8a","origin":"5b52a15ce94f64eb46ae9e6f815caf01"}',X'15D7FEEF60956D17E55BA12C13C18D5C',X'B48EE4D0C2848080645127142A29E62CC27D4E96F79475E4A3C114160FD9BE02',X'2E4515F9FC7CD0EAFC67BB7174AE60D9F0366F7810339B5625674A41558DF42B');
INSERT INTO "event" VALUES(40,'attach/a-3',4,'52c7356bf80f44798ea4e7e4bb52e427','lease.ended',1,1795987953493572994,1795987953493796883,0,'{"attach":"a-3","how":"closed","checked":""}',X'AC5EF5575F19B35C2C837350F99595CA',X'0CAE0FD7D4B5FA3EAEC1B584890DA7824275BCA830A32E21B9A7AD4A7972554E',X'090E4FB4B3B005E84E0E04FBCE94811716774A89E700F7E33B1BF659EA4ACB0C');
INSERT INTO "event" VALUES(41,'attach/a-7',1,'f9248d4ed31b4afcaf3c516fae8a0e04','attach.decided',1,1795987953493576059,1795987953493796883,0,'{"attach":"a-7","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'CCE5D1F2BB03B170994B4EA49EBA2E6F',X'C3F79ADD3D7D633E78ECD7FD0514797B612518EC2B03E0139DF9F5FA6E03207D',X'4A8C6D6BF227F1C4F18D0B2E21076BEBBB22B7F955645EBDFCF5DB9101DB2074');
INSERT INTO "event" VALUES(42,'attach/a-7',2,'82961497f2d646c9b14646e14cd4e480','lease.granted',1,1795987953493578339,1795987953493796883,0,'{"attach":"a-7","residency":"r-1"}',X'F998FC1E2D02C206E6EDB4253ABDD2EC',X'FF16281BA81374FF8056D30FA1205843783D54AEF859EF5C8F0F6AEB1A35B6BE',X'6B48F49896325DC6C8D766F948C401F53FBBB447CC164CA5B239564E27BDD1E3');
INSERT INTO "event" VALUES(43,'ledger',6,'d020679e8a114c1ab6426824770ab0dd','payload.redacted',1,1795987953512938035,1795987953532833667,0,'{"target_seq":25,"why":"a path with a name","uid":0,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-5","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"[redacted]","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-2","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"},"body_schema":1}',X'D5F836E37ADD42E750263CEF296EAF81',X'6A12F0B16E5C8C0A0BFD1664B38EF9A70814BD2E4D82D53C780B5D662782206E',X'A487F746BC2F984A64731EC400EF1EEA7EC3751F22EA22DECCFA9CDD6A7672EF');
INSERT INTO "event" VALUES(44,'ledger',7,'53e1dbec5e054b49ba2c06013403987f','payload.redacted',1,1795987953512940884,1795987953532833667,0,'{"target_seq":26,"why":"a path with a name","uid":0,"body":{"attach":"a-5","residency":"r-2"},"body_schema":1}',X'DA603B16A5E23DFB48AAC3BCFA2B50BF',X'757B0573D192C837437E1E7EAF969A33CB1BCB23D8238573287836FDEE61BEE7',X'53F1BCD139A405FB0FF0F3606F8DE6E69D269355E98BEF99623DE078892A8390');
INSERT INTO "event" VALUES(45,'ledger',8,'34d032987d40497392e085e3417b09d1','payload.redacted',1,1795987953512942594,1795987953532833667,0,'{"target_seq":31,"why":"a path with a name","uid":0,"body":{"peer":{"pid":5,"uid":1000},"why":"[redacted]"},"body_schema":1}',X'818C18EB317F7E70A1985E381DDFCE5D',X'44AD1ADF020D55B071F92A35C4E2B81DE8855B3983FB664BCB1810C64062EEEB',X'6A3EB75832B31C89A70DAFECAF503ECC5CE4687C6034C8AA09ED241E8A41C290');
INSERT INTO "event" VALUES(46,'attach/a-5',5,'6d38d15be7394fdba1282e43a9c94fb9','verify.inconclusive',1,1795987953552735390,1795987953552908980,0,'{"subject":"hit","attach":"a-5","residency":"r-1","why":"the files changed"}',X'5C4C7706F8B68B36C28D4795D610BE26',X'4ACB404434AB18A116095FAD1F93455B9EA0CCC9FE393F288C8B8A21EC67DD4C',X'4FBBDCB3713E06555F19B9F2414B6C1A5BD8BAB565D029D129F88EABD94DE2DA');
INSERT INTO "event" VALUES(47,'ledger',9,'2444f16e92cb4ab097c74b40d76ef95d','segment.dropped',1,1795987953571936021,1795987953584285431,0,'{"spans":[{"first_seq":1,"last_seq":38,"from_ns":1795987953468065894,"to_ns":1795987953484163011,"at_ns":1795987953571856329,"uid":0,"keep_days":400,"root":"ccd07e1330ad7ca0a7d4d92eef889315b575ba50ce37547ada2c1fee0ba78be8","events":{"attach.decided":6,"daemon.started":1,"fallback.completed":1,"fingerprint.recorded":2,"lease.ended":3,"lease.granted":5,"load.completed":2,"load.started":2,"map.completed":5,"peer.refused":1,"release.completed":1,"release.requested":1,"segment.closed":2,"segment.opened":1,"trust.granted":2,"trust.revoked":1,"verify.failed":1,"verify.passed":1},"decisions":{"fallback":1,"hit":5}}],"carried":[{"seq":1,"stream":"daemon/d-1","version":1,"event_id":"c1fb7603b6464c45a233ebe128521261","type":"daemon.started","schema":1,"occurred_ns":1795987953467207439,"recorded_ns":1795987953468065894,"late":false,"body":{"boot_id":"boot","instance":"d-1","origin":"00000000000000000000000000000000","pid":10,"runtime_dir":"/run/wcache","uid":0,"version":"1"}},{"seq":2,"stream":"fingerprint/1e1e30c3fea228fa4cce06526ce88304","version":1,"event_id":"af862ac7c4544301b5d03b1f77c6bbce","type":"fingerprint.recorded","schema":1,"occurred_ns":1795987953467211314,"recorded_ns":1795987953468065894,"late":false,"body":{"by":"server","evidence":{"age_s":null,"algorithm":"wcache/weights/1","attested_names":{},"coverage":{"chance_4k":0.0,"covered_bytes":1000,"files_opened":0,"read_bytes":0,"reads":0,"samples":0,"seconds":0.0,"stats":0,"total_bytes":1000},"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","file_digests":{},"grant":null,"location":{"commit":"c0ffee","directory":{"ctime_ns":6,"dev":1,"ino":2,"mtime_ns":5,"name":"","size_bytes":4096},"files":[{"ctime_ns":6,"dev":1,"ino":7,"mtime_ns":5,"name":"model.safetensors","size_bytes":1000}],"fs_kind":"ext4","index":null,"repo":"org/base","root":"/models/base"},"nonce":"","not_pinnable":"","pinnable":true,"reuses":null,"seed_id":null,"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","tier":"content","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"fingerprint":"1e1e30c3fea228fa4cce06526ce88304","instance":"d-1","spelling":"/models/base","uid":0}},{"seq":4,"stream":"trust/g-1","version":1,"event_id":"5bcaa1744b8f436bbc08b1d8910fb1dc","type":"trust.granted","schema":1,"occurred_ns":1795987953467216601,"recorded_ns":1795987953468065894,"late":false,"body":{"grant":{"expires_ns":null,"fingerprint":null,"grant":"g-1","granted_ns":1,"instance":null,"operator_uid":0,"prefix":null,"reason":"because","residency":null,"scope":"checkpoint","spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}},{"seq":7,"stream":"residency/r-1","version":1,"event_id":"20daf8f8aa524ec5a7f4f7192503aa9f","type":"load.started","schema":1,"occurred_ns":1795987953467233884,"recorded_ns":1795987953468065894,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"bytes":1000,"device":"cpu","instance":"d-1","kind":"raw","residency":"r-1","shards":1,"tensors":3}},{"seq":8,"stream":"residency/r-1","version":2,"event_id":"51b2d786eeba46e997dcec62d3f27575","type":"load.completed","schema":1,"occurred_ns":1795987953467236360,"recorded_ns":1795987953468065894,"late":false,"body":{"by":null,"bytes":1000,"config":{},"device":"cpu","dtypes":["BF16"],"fingerprints":["1e1e30c3fea228fa4cce06526ce88304"],"kind":"raw","lineage":null,"misaligned":0,"pinned":false,"processed_digest":null,"residency":"r-1","seconds":{"read":0.5},"served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"shards":1,"source":null,"strays":[],"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","tensors":3,"unproven_why":"","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},{"seq":13,"stream":"attach/a-2","version":1,"event_id":"6c2f2bb99a244ed9bd2bfc2ac66e8d8e","type":"attach.decided","schema":1,"occurred_ns":1795987953467247133,"recorded_ns":1795987953468065894,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-2","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"node","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-1","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"}},{"seq":14,"stream":"attach/a-2","version":2,"event_id":"5626c2db04c44fd584df5fc0cf8f6e24","type":"lease.granted","schema":1,"occurred_ns":1795987953467249271,"recorded_ns":1795987953468065894,"late":false,"body":{"attach":"a-2","residency":"r-1"}},{"seq":15,"stream":"attach/a-2","version":3,"event_id":"bc4683e40cfc450eb93a6967ed18cb77","type":"map.completed","schema":1,"occurred_ns":1795987953467251361,"recorded_ns":1795987953468065894,"late":false,"body":{"attach":"a-2","bytes":1000,"copied_bytes":0,"copied_tensors":0,"mode":"zero_copy","ms":0.5,"tensors":3}},{"seq":16,"stream":"attach/a-2","version":4,"event_id":"8fcfc51841ed463abf317c3532d66c2f","type":"verify.failed","schema":1,"occurred_ns":1795987953467254135,"recorded_ns":1795987953468065894,"late":false,"body":{"asked_key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","attach":"a-2","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","residency":"r-1","seconds":0.1,"spellings":["/models/base"],"subject":"hit"}},{"seq":17,"stream":"attach/a-2","version":5,"event_id":"8c3806993ba54500a176cfc623d86ba1","type":"lease.ended","schema":1,"occurred_ns":1795987953467256311,"recorded_ns":1795987953468065894,"late":false,"body":{"attach":"a-2","checked":"","how":"closed"}},{"seq":18,"stream":"attach/a-3","version":1,"event_id":"bc1606ab029249f59fbebf9520f8ea23","type":"attach.decided","schema":1,"occurred_ns":1795987953467258495,"recorded_ns":1795987953468065894,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-3","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"node","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-1","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"}},{"seq":19,"stream":"attach/a-3","version":2,"event_id":"a1c76615ba5244718afcb9b8dc8feba8","type":"lease.granted","schema":1,"occurred_ns":1795987953467260323,"recorded_ns":1795987953468065894,"late":false,"body":{"attach":"a-3","residency":"r-1"}},{"seq":20,"stream":"attach/a-3","version":3,"event_id":"e9e16e7e4718467fa3e443a71b343539","type":"map.completed","schema":1,"occurred_ns":1795987953467262441,"recorded_ns":1795987953468065894,"late":false,"body":{"attach":"a-3","bytes":1000,"copied_bytes":0,"copied_tensors":0,"mode":"zero_copy","ms":0.5,"tensors":3}},{"seq":23,"stream":"residency/r-2","version":1,"event_id":"ba6cf85426b74561b6984006675b9ef5","type":"load.started","schema":1,"occurred_ns":1795987953467268282,"recorded_ns":1795987953468065894,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"bytes":1000,"device":"cpu","instance":"d-1","kind":"raw","residency":"r-2","shards":1,"tensors":3}},{"seq":24,"stream":"residency/r-2","version":2,"event_id":"5d0bebb8aee74ebebad2ff9777490e1f","type":"load.completed","schema":1,"occurred_ns":1795987953467270218,"recorded_ns":1795987953468065894,"late":false,"body":{"by":null,"bytes":1000,"config":{},"device":"cpu","dtypes":["BF16"],"fingerprints":[],"kind":"raw","lineage":null,"misaligned":0,"pinned":false,"processed_digest":null,"residency":"r-2","seconds":{"read":0.5},"served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"shards":1,"source":null,"strays":[],"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","tensors":3,"unproven_why":"","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},{"seq":25,"stream":"attach/a-5","version":1,"event_id":"23934ac601cc4f4ba7284b38e99260fe","type":"attach.decided","schema":1,"occurred_ns":1795987953467272248,"recorded_ns":1795987953468065894,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-5","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"[redacted]","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-2","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"}},{"seq":26,"stream":"attach/a-5","version":2,"event_id":"3bee541550fd4221ba3ddeee68ff84dd","type":"lease.granted","schema":1,"occurred_ns":1795987953467274934,"recorded_ns":1795987953468065894,"late":false,"body":{"attach":"a-5","residency":"r-2"}},{"seq":27,"stream":"attach/a-5","version":3,"event_id":"17dd3b2ac39443359ee5c5db2b4b22e4","type":"map.completed","schema":1,"occurred_ns":1795987953467276953,"recorded_ns":1795987953468065894,"late":false,"body":{"attach":"a-5","bytes":1000,"copied_bytes":0,"copied_tensors":0,"mode":"zero_copy","ms":0.5,"tensors":3}},{"seq":28,"stream":"attach/a-5","version":4,"event_id":"8a10128282d94d89a2a0a6323f8e54e9","type":"lease.ended","schema":1,"occurred_ns":1795987953467278751,"recorded_ns":1795987953468065894,"late":false,"body":{"attach":"a-5","checked":"","how":"closed"}},{"seq":29,"stream":"residency/r-2","version":3,"event_id":"800e8fc930f34944a1f9bee0269c7b23","type":"release.requested","schema":1,"occurred_ns":1795987953467281208,"recorded_ns":1795987953468065894,"late":false,"body":{"force":false,"leases":[],"residency":"r-2","uid":0,"when_free":false,"why":"asked"}},{"seq":30,"stream":"residency/r-2","version":4,"event_id":"23a82224b75746ad9b96bcd335bcfffb","type":"release.completed","schema":1,"occurred_ns":1795987953467283319,"recorded_ns":1795987953468065894,"late":false,"body":{"bytes":1000,"checked":"","residency":"r-2"}},{"seq":35,"stream":"attach/a-6","version":1,"event_id":"4b8feb999a2a4fa08300975c1287ac68","type":"attach.decided","schema":1,"occurred_ns":1795987953475963726,"recorded_ns":1795987953476251329,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-6","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"node","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-1","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"}},{"seq":36,"stream":"attach/a-6","version":2,"event_id":"d540d19bae0e4d94993a9fa4d85b70e9","type":"lease.granted","schema":1,"occurred_ns":1795987953475965912,"recorded_ns":1795987953476251329,"late":false,"body":{"attach":"a-6","residency":"r-1"}},{"seq":37,"stream":"attach/a-6","version":3,"event_id":"39580eed092d4be9a6478a66fd3dbd44","type":"map.completed","schema":1,"occurred_ns":1795987953475967831,"recorded_ns":1795987953476251329,"late":false,"body":{"attach":"a-6","bytes":1000,"copied_bytes":0,"copied_tensors":0,"mode":"zero_copy","ms":0.5,"tensors":3}}],"versions":{"ledger":4}}',X'E2FB49793DB250701F4CAB4DD71F4683',X'1B02A40AE2FBBF6F67AFB5131D3AA21C256DC759D9EE80469B7971280FDEF5E3',X'0947C5410F7DF543BAEACD3664656AC36CB17644B74753D1CA79F49BED0D004B');
INSERT INTO "event" VALUES(48,'attach/a-6',4,'9f395cd4e64543db8cdf9b4e2100c8f6','lease.ended',1,1795987953613306120,1795987953613545908,0,'{"attach":"a-6","how":"closed","checked":""}',X'73FA740D2A8C2E56AD6EB71C5083B013',X'42701F045197141759422481BC1623CE4650FA4B1FAECE5B3D9F0E637DF31172',X'6531A213FA26DE2844F24AD3926288B269AA728FDB90471867923A0F6E352426');
INSERT INTO "event" VALUES(49,'attach/a-4',1,'197d8dbe91ce4921b8403a0d0c899fdc','lease.ended',1,1795987953613308897,1795987953613545908,1,'{"attach":"a-4","how":"closed","checked":""}',X'29551436B0AB259CC98266DDBEF2B5CD',X'9815A9F9761B5324AC6FB450F9B5F0A8B5CE1569734A8178C0D0AFC289B1DD1E',X'D6C9093E3E2C53D87B41D9381C831C45A83F65C1B10C3777C4A1947B6BAF3DEC');
INSERT INTO "event" VALUES(50,'attach/a-1',1,'9d98511b66d4451b964db0eb99249f85','verify.passed',1,1795987953613310827,1795987953613545908,1,'{"subject":"hit","attach":"a-1","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seconds":0.1,"by":"digests"}',X'53E9584D81653F7B39C1BB95CEEE5E97',X'51B1D1C7C363C898AB682EFD9652204F9BD545B117D582A9C2B130C8EC0CC0AF',X'2231727E977B6AFD662CC8DEB216439440B8D212A72069F5260FEA4346EDE2F0');
CREATE TABLE fingerprint (
  fingerprint TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  tier TEXT NOT NULL,
  digest TEXT NOT NULL,
  weights_digest TEXT,
  root TEXT,
  key TEXT,
  spelling TEXT NOT NULL,
  instance TEXT,
  recorded_ns INTEGER NOT NULL,
  pinnable INTEGER NOT NULL CHECK (pinnable IN (0, 1)),
  body TEXT NOT NULL
) STRICT;
INSERT INTO "fingerprint" VALUES('1e1e30c3fea228fa4cce06526ce88304',2,'content','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795987953468065894,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
CREATE TABLE instance (
  instance TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  started_ns INTEGER NOT NULL,
  ended_ns INTEGER,
  pid INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  version TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  runtime_dir TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "instance" VALUES('d-1',1,'running',1795987953467207439,NULL,10,0,'1','boot','/run/wcache');
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_ns','1795987953461517098');
INSERT INTO "meta" VALUES('origin','5b52a15ce94f64eb46ae9e6f815caf01');
CREATE TABLE policy (
  policy TEXT NOT NULL PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
INSERT INTO "policy" VALUES('ecbf1c02a252e835d08fab320a8a85fd','{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"}');
CREATE TABLE residency (
  residency TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  root TEXT,
  repo TEXT,
  commit_id TEXT,
  kind TEXT,
  device TEXT,
  bytes INTEGER,
  tensors INTEGER,
  weights_digest TEXT,
  table_digest TEXT,
  state TEXT NOT NULL,
  loaded_ns INTEGER,
  ended_ns INTEGER,
  instance TEXT,
  known TEXT NOT NULL,
  spellings TEXT NOT NULL,
  dtypes TEXT NOT NULL,
  served TEXT NOT NULL
) STRICT;
INSERT INTO "residency" VALUES('r-1',8,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','resident',1795987953467236360,NULL,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO "residency" VALUES('r-2',24,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','released',1795987953467270218,1795987953467283319,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
CREATE TABLE sighting (
  instance TEXT NOT NULL,
  spelling TEXT NOT NULL,
  seq INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  PRIMARY KEY (instance, spelling)
) STRICT, WITHOUT ROWID;
INSERT INTO "sighting" VALUES('d-1','/models/base',2,'1e1e30c3fea228fa4cce06526ce88304');
INSERT INTO "sighting" VALUES('d-1','org/base',8,'1e1e30c3fea228fa4cce06526ce88304');
CREATE TABLE stream (
  stream TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "stream" VALUES('attach/a-1',1,'{"state":"asked","outcome":null,"arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('attach/a-2',5,'{"state":"ended","outcome":"hit","arrived":true,"proof":"refuted"}');
INSERT INTO "stream" VALUES('attach/a-3',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-4',1,'{"state":"asked","outcome":null,"arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('attach/a-5',5,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unprovable"}');
INSERT INTO "stream" VALUES('attach/a-6',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-7',2,'{"state":"granted","outcome":"hit","arrived":false,"proof":"unproven"}');
INSERT INTO "stream" VALUES('daemon/d-1',1,'');
INSERT INTO "stream" VALUES('fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'');
INSERT INTO "stream" VALUES('ledger',9,'');
INSERT INTO "stream" VALUES('residency/r-1',2,'resident');
INSERT INTO "stream" VALUES('residency/r-2',4,'released');
INSERT INTO "stream" VALUES('trust/g-1',1,'active');
CREATE TABLE trust (
  grant TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  scope TEXT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  revoked_seq INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "trust" VALUES('g-1',4,'checkpoint','active','{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',NULL);
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_replace BEFORE INSERT ON event
WHEN NEW.seq <= coalesce((SELECT max(seq) FROM event), 0)
  OR EXISTS (SELECT 1 FROM event WHERE event_id = NEW.event_id)
  OR EXISTS (SELECT 1 FROM event WHERE stream = NEW.stream AND version = NEW.version)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE UNIQUE INDEX attach_seq ON attach (seq);
CREATE INDEX attach_launch ON attach (launch);
CREATE INDEX attach_decided_ns ON attach (decided_ns);
CREATE INDEX attach_residency ON attach (residency);
CREATE INDEX residency_state ON residency (state);
CREATE INDEX fingerprint_root ON fingerprint (root, tier, seq);
CREATE INDEX fingerprint_key ON fingerprint (key, tier, seq);
CREATE INDEX fingerprint_spelling ON fingerprint (spelling, tier, seq);
CREATE VIEW attaches AS
SELECT seq, strftime('%Y-%m-%dT%H:%M:%S', decided_ns / 1000000000, 'unixepoch') || printf('.%03dZ', decided_ns / 1000000 % 1000) AS time, launch, rank, world, host, engine, engine_version, checkpoint, decision, reason, detail, tier,
  mode, state, proof, residency, kind, device, asked_digest, served_digest, asked_commit, served_commit, mapped_bytes, copied_bytes, map_ms,
  fallback_bytes, fallback_s, idle_bytes, strftime('%Y-%m-%dT%H:%M:%S', ended_ns / 1000000000, 'unixepoch') || printf('.%03dZ', ended_ns / 1000000 % 1000) AS ended, uid, decided_by, policy, attach, first_seq, proof_seq, decided_ns
FROM attach;
CREATE VIEW hits AS
SELECT * FROM attaches WHERE decision = 'hit';
CREATE VIEW unproven_hits AS
SELECT * FROM attaches
WHERE decision = 'hit' AND proof = 'unproven' AND tier IN ('header', 'sampled', 'attested', 'trusted');
CREATE VIEW wrong_hits AS
SELECT * FROM attaches
WHERE decision = 'hit' AND (proof = 'refuted' OR asked_digest <> served_digest);
CREATE VIEW fallbacks AS
SELECT * FROM attaches WHERE decision <> 'hit';
CREATE VIEW launches AS
SELECT launch, strftime('%Y-%m-%dT%H:%M:%S', min(decided_ns) / 1000000000, 'unixepoch') || printf('.%03dZ', min(decided_ns) / 1000000 % 1000) AS time, min(host) AS host, min(engine) AS engine, min(checkpoint) AS checkpoint,
  max(max(world), max(rank) + 1) AS ranks, count(DISTINCT rank) AS asked,
  count(DISTINCT rank) - count(DISTINCT CASE WHEN decision <> 'hit' OR mapped_bytes IS NULL THEN rank END) AS mapped,
  min(decided_ns) AS decided_ns
FROM attach AS this
WHERE NOT EXISTS (
  SELECT 1 FROM attach AS later WHERE later.launch = this.launch AND later.rank = this.rank AND later.checkpoint = this.checkpoint
    AND later.engine = this.engine AND later.seq > this.seq
)
GROUP BY launch;
CREATE VIEW incomplete_launches AS
SELECT * FROM launches WHERE mapped < ranks;
CREATE VIEW residencies AS
SELECT residency, seq, state, checkpoint, root, repo, commit_id, kind, device, bytes, tensors, weights_digest,
  strftime('%Y-%m-%dT%H:%M:%S', loaded_ns / 1000000000, 'unixepoch') || printf('.%03dZ', loaded_ns / 1000000 % 1000) AS loaded, strftime('%Y-%m-%dT%H:%M:%S', ended_ns / 1000000000, 'unixepoch') || printf('.%03dZ', ended_ns / 1000000 % 1000) AS ended, instance,
  (SELECT count(attach) FROM attach WHERE attach.residency = residency.residency AND attach.state IN ('granted', 'mapped', 'copied'))
    AS leases,
  loaded_ns, ended_ns
FROM residency;
CREATE VIEW grants AS
SELECT "grant", seq, scope, state, json_extract(body, '$.reason') AS reason, json_extract(body, '$.operator_uid') AS operator_uid,
  strftime('%Y-%m-%dT%H:%M:%S', json_extract(body, '$.granted_ns') / 1000000000, 'unixepoch') || printf('.%03dZ', json_extract(body, '$.granted_ns') / 1000000 % 1000) AS granted, strftime('%Y-%m-%dT%H:%M:%S', json_extract(body, '$.expires_ns') / 1000000000, 'unixepoch') || printf('.%03dZ', json_extract(body, '$.expires_ns') / 1000000 % 1000) AS expires, revoked_seq,
  json_extract(body, '$.spellings') AS spellings, json_extract(body, '$.weights_digest') AS weights_digest,
  json_extract(body, '$.residency') AS residency, json_extract(body, '$.instance') AS instance, json_extract(body, '$.prefix') AS prefix
FROM trust;
CREATE VIEW events AS
SELECT seq, strftime('%Y-%m-%dT%H:%M:%S', occurred_ns / 1000000000, 'unixepoch') || printf('.%03dZ', occurred_ns / 1000000 % 1000) AS time, strftime('%Y-%m-%dT%H:%M:%S', recorded_ns / 1000000000, 'unixepoch') || printf('.%03dZ', recorded_ns / 1000000 % 1000) AS recorded, type, stream, version, late, payload, occurred_ns, recorded_ns
FROM event;
CREATE VIEW days AS
SELECT strftime('%Y-%m-%d', decided_ns / 1000000000, 'unixepoch') AS day, decision, coalesce(reason, tier) AS why,
  count(attach) AS attaches, sum(mapped_bytes) AS mapped_bytes, sum(fallback_bytes) AS fallback_bytes, sum(idle_bytes) AS idle_bytes
FROM attach GROUP BY 1, 2, 3;
COMMIT;
