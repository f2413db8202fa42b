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
INSERT INTO "attach" VALUES('a-1',9,9,1795987953264847780,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','proved',34,1795987953264862560,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-2',13,13,1795987953264864539,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','refuted',16,1795987953264872281,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-3',18,18,1795987953264874105,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795987953312032203,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-4',21,21,1795987953264880340,'l-1',0,2,'node','test','1',0,'/models/base',NULL,'raw','cpu','fallback','not_resident','',NULL,NULL,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee',NULL,NULL,NULL,'fell_back',NULL,NULL,NULL,NULL,NULL,NULL,1000,2.0,500,'ecbf1c02a252e835d08fab320a8a85fd','[]','server');
INSERT INTO "attach" VALUES('a-5',25,25,1795987953264887914,'l-1',0,2,'[redacted]','test','1',0,'[redacted]','r-2','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795987953264893578,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-6',35,35,1795987953296593790,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','mapped','unproven',NULL,NULL,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-7',41,41,1795987953312035277,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','granted','unproven',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
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
INSERT INTO "event" VALUES(1,'daemon/d-1',1,'8b475bba1aff4afaabe45f9ee05dcfd1','daemon.started',1,1795987953264818764,1795987953265839577,0,'{"instance":"d-1","version":"1","boot_id":"boot","pid":10,"uid":0,"origin":"00000000000000000000000000000000","runtime_dir":"/run/wcache"}',X'441B535946FB565C75BAF79026FCB964',X'2E71E0BD1A5C7ED66E0F795AFFC2A1D417F41D5C42FFD1421F9E09FC99FD76BE',X'1611C569B0CB175A00E7DB935489F16EB1E1ED26AA7A4DB2F92448A71628B617');
INSERT INTO "event" VALUES(2,'fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'ba3217d2d66648ed8175ce596c0003e0','fingerprint.recorded',1,1795987953264824550,1795987953265839577,0,'{"fingerprint":"1e1e30c3fea228fa4cce06526ce88304","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'5EDED8485605218A4C540EB38EB4EDB2',X'46DD2B1429611E9CE4D9C96D96E82F18CC6455D1182F5EE19FAD67FCBA2BF52A',X'44ED57E33229FABC5EB452641D58C239A079891FA7AFCA6E89CE70EA00FDFABC');
INSERT INTO "event" VALUES(3,'fingerprint/3f10fec20294af230a35eb846e15693b',1,'cb47ea822de54544b4907766fae6352d','fingerprint.recorded',1,1795987953264827142,1795987953265839577,0,'{"fingerprint":"3f10fec20294af230a35eb846e15693b","evidence":{"tier":"content","algorithm":"wcache/weights/1","digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":9,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""},"spelling":"/models/base","by":"server","uid":0,"instance":"d-1"}',X'1916485D94ED6983D485C3F98F456263',X'206B0AAE33E8B53A80696BFFDBEB7ACA36113310E2ACE3511BC933D1CD3C6D09',X'51A50696F0B857226E0C4A400FBC3AEC1E8B4CB507C83FCA7723B044EDD915BC');
INSERT INTO "event" VALUES(4,'trust/g-1',1,'7cd945269b114db9a599db64bbd0d61d','trust.granted',1,1795987953264834272,1795987953265839577,0,'{"grant":{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'0187A6E86EB3E403B58F2BA4482077C4',X'480721DBA2FE7EADA6F89841AA51FFC392E19153E54DD8DC946ABCC2CA562356',X'D38EF78CF06133B8E3462D9C832769D2C9BC864E5328F5BE07DC9CB2AC436ED7');
INSERT INTO "event" VALUES(5,'trust/g-2',1,'494909b118f046e2a87d22e8c19def6b','trust.granted',1,1795987953264836814,1795987953265839577,0,'{"grant":{"grant":"g-2","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}}',X'D1D0D743127B6D3AD00831EDA6A30FD5',X'88740BDFEAD5704D2A830BCDBADB81949169B41FE3EF5ED4BFC7F4644F0F4B0F',X'9807070F04E00163EF97A382AC9316A81E3C4763A76FF9D50F6B6C84AAEF45CF');
INSERT INTO "event" VALUES(6,'trust/g-2',2,'cd0f438f07834ec0bae331715241ee15','trust.revoked',1,1795987953264839434,1795987953265839577,0,'{"grant":"g-2","operator_uid":0,"reason":""}',X'6661C0E0820C1B9FF192B3B281E40C57',X'E434849896C1E8098FE34AFDBC100C34B1B93F93B8E8875C817FA7CC04186329',X'F2F9389A8381F97719C45E31F08A285D4C49AE500361FD997E7397E9FA40DB29');
INSERT INTO "event" VALUES(7,'residency/r-1',1,'35496905249a40de806ae3ca034076f7','load.started',1,1795987953264841832,1795987953265839577,0,'{"residency":"r-1","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'232AAFF6D29D913C929A2B9FEC0F4C08',X'FAA2611BE156B5554BAB18F946E59998FC3E6D164B70427B33EF1E85814EF521',X'5CDEB5B415100348742FD7D2D8EE5772D1603A089D5908A4FD2B48AD282CB050');
INSERT INTO "event" VALUES(8,'residency/r-1',2,'e53f0d33586a455099aa8b6376ab5f92','load.completed',1,1795987953264845456,1795987953265839577,0,'{"residency":"r-1","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":["1e1e30c3fea228fa4cce06526ce88304"],"seconds":{"read":0.5},"strays":[],"misaligned":0,"pinned":false,"processed_digest":null,"lineage":null,"source":null,"config":{},"by":null,"unproven_why":""}',X'EDA39C1ADD2E0F82883DC05A450E3F0C',X'BB13C1D10747D0666F3A0FFE55951D0D3847AB25F0FD8C6B945506EA68B1D358',X'ED2A2268A862EC14F3D61DC6376965DC7A18C81517C0E5527012F39D868C6B49');
INSERT INTO "event" VALUES(9,'attach/a-1',1,'6a384e7cac4a4f4c8eb6408b322c66be','attach.decided',1,1795987953264847780,1795987953265839577,0,'{"attach":"a-1","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'D0F846E4CBBC4AB5A861578D6D3F4E0E',X'FCBD37864F9063D13643D4F0A3BB980E5498D3001CCEFCAB989A85E15B24CA40',X'72EA2EDF16639A200D357212477E672D003B3F022D5FE0138316981F6BC58D8C');
INSERT INTO "event" VALUES(10,'attach/a-1',2,'af33d5e2127d41d49e66460f70aa4788','lease.granted',1,1795987953264857597,1795987953265839577,0,'{"attach":"a-1","residency":"r-1"}',X'12F66E8BAC3A9F811947BC6DF6B70A18',X'BECE18209FBD94D9F8CDC787B56A55DAFDC5C5FE45DCC007CBBAEDEE1EE83530',X'F284F10C13C08E2D4B95904555CD415C5BE6F5C9607A8A742D77513333BBAFB1');
INSERT INTO "event" VALUES(11,'attach/a-1',3,'dcaa1ca202634fb898d15017cc7b591c','map.completed',1,1795987953264860177,1795987953265839577,0,'{"attach":"a-1","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'FB2EE78A9A2B7416EAA0AE558B68E50D',X'517E7DC6526BFD9E20DA1022DCD9978A99351C98037EBD35F51483469F68EC99',X'51C2255E32563F2D8F245A995D1E3235566B5DC4F18FA862BA4F4159DC5041A4');
INSERT INTO "event" VALUES(12,'attach/a-1',4,'fcba589e7c3a46979d62c75956bf917c','lease.ended',1,1795987953264862560,1795987953265839577,0,'{"attach":"a-1","how":"closed","checked":""}',X'DB8FE6BC882607B6A6BB02AD042CDED4',X'AA29DA575FB701BCDBBDFF3F70CEF8E2943021D871E22DE57FAA1D90CC21CA96',X'1FDA19F52CB70A97262FCD5415BD1FE0CE16B6C60B9763715CDCF8F033EF18A5');
INSERT INTO "event" VALUES(13,'attach/a-2',1,'ced0177f9ae44ca9a316be5029c161e0','attach.decided',1,1795987953264864539,1795987953265839577,0,'{"attach":"a-2","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'9C5A88D9BB8B8D8CF40E292B43478EC3',X'AF26D1A48C49FF3689A1ED3C74A79E997031D59CD78B0B0E42AC232A6148EA75',X'41C22F0AE7A1A0262F95D569D16CE4F721F68FF536EEB8A575D39A4114BD5E52');
INSERT INTO "event" VALUES(14,'attach/a-2',2,'bfa81b60b53340b4a007164b40bee53b','lease.granted',1,1795987953264866087,1795987953265839577,0,'{"attach":"a-2","residency":"r-1"}',X'088DAE640D2C8B7DF4BA39F5186059E2',X'37A6C1C491EB3AA6CA7611F59A2955B73BAAAF23886F317184CE233868CE4E63',X'6207035A5B45FE7590599BC1BA748E231166CA2275D0ADC19E00C01F835EDDD1');
INSERT INTO "event" VALUES(15,'attach/a-2',3,'27b511f1ae2348d88df912d2b5fd0f1b','map.completed',1,1795987953264868219,1795987953265839577,0,'{"attach":"a-2","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'4E91F592B141879FA05F60AEBCE81AA3',X'176AA12A174D8E913D714D9D02DFD24B64DBED1DE5932F6194DEBFABE98B3096',X'B0BF9A47AB8FF51BE9AED798D36A862A7DEEA5D9EC5AA81A888B8BB68D35D552');
INSERT INTO "event" VALUES(16,'attach/a-2',4,'c5817481ac8842baa2ba1d6b4c69421d','verify.failed',1,1795987953264870237,1795987953265839577,0,'{"subject":"hit","attach":"a-2","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","asked_key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","spellings":["/models/base"],"seconds":0.1}',X'C982F5ABA15F7F01371B8C91652A3806',X'C54F9BD23FB9A30841C889C574D7E01480EA32FD13ACBCF1A253E19FC0180967',X'7CC5AAAA930AC9021CC73952A6EE53E6055342474A6236679151527D1DC6A04D');
INSERT INTO "event" VALUES(17,'attach/a-2',5,'90cccfb8cb3a4413aee06cce928c53e6','lease.ended',1,1795987953264872281,1795987953265839577,0,'{"attach":"a-2","how":"closed","checked":""}',X'2596287A8412C181BD02BEC03B1D286F',X'EC891CCE3B841313F5F87C2A26AAEB78425E3CE31299F1B2F68AC58A146AE677',X'4725348AAA08AD4C7B59997A9951664DB753A137772CB847838B9EB9DE1787E1');
INSERT INTO "event" VALUES(18,'attach/a-3',1,'6ecf57958fb04b78845834fea44642cf','attach.decided',1,1795987953264874105,1795987953265839577,0,'{"attach":"a-3","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'99A499AA8CF33BF74956E08DD6F8BCCD',X'A72CD35639426FF14895BF2EF88A22D43EA664AE27C62BDB30D9CE4C3E9B23FD',X'5849B50B7EE13D85D75E25DD4B696A152DEDD32206677454C501616EC5E7877C');
INSERT INTO "event" VALUES(19,'attach/a-3',2,'11d58f9fee864d9e8e456da6ff040ff3','lease.granted',1,1795987953264876164,1795987953265839577,0,'{"attach":"a-3","residency":"r-1"}',X'D58E45C714833D0221BDF147BF7C2AD2',X'A6E884F756CC77AED16295DC0DDDEEED62BAD68BF4553C07C45B345E1516ECBC',X'C61658E4F7913394B7E915A786C0328B08AD74F7D547AD9FB1D6929379B414EA');
INSERT INTO "event" VALUES(20,'attach/a-3',3,'dbc6a6e28cca4f22ad4ba8969bfcb6c7','map.completed',1,1795987953264878110,1795987953265839577,0,'{"attach":"a-3","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'09CCE688D4493E1E062ADB896DFA291E',X'635302B5AAD17DEA808D45DFB91C7DB423BCF701C81DD79A8783F58771DFFF2F',X'673924BB037ED4B2ADC34351A87A5A9C189BEB3B4F2A192ECF117C2E4853CDE2');
INSERT INTO "event" VALUES(21,'attach/a-4',1,'86de31187b8d4a01bf603d6f5f0742da','attach.decided',1,1795987953264880340,1795987953265839577,0,'{"attach":"a-4","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":null,"residency":null,"kind":"raw","device":"cpu","outcome":"fallback","reason":"not_resident","detail":"","tier":null,"mode":null,"evidence":[],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'DDA8333833F89BAD7DC9F89C000817B2',X'A68956F862A6F7A890389E867BCB4E1C33DB2E999E55560BC713264D2F64E356',X'51D171E124B61371933E1E9F5BE267DA2AB463C6729105C09A750B272FCACF27');
INSERT INTO "event" VALUES(22,'attach/a-4',2,'8bcd5cd9cbc24a9b9aa36f7cba4e7837','fallback.completed',1,1795987953264882184,1795987953265839577,0,'{"attach":"a-4","bytes":1000,"seconds":2.0,"idle_bytes":500}',X'402C6A002AB74C4061848EF2491B9F13',X'8851674FCA21857A1EF1351E12DFB62F33C1D4E62B76866BDE4E62363D6447EE',X'AE61C3E1DCCE0D1CBF0588C5191637D9B0C80B64283F73CA7F28CD9F8CE92BA6');
INSERT INTO "event" VALUES(23,'residency/r-2',1,'cff736a709424084a5aaa61b8473bd16','load.started',1,1795987953264883949,1795987953265839577,0,'{"residency":"r-2","asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"instance":"d-1"}',X'7D4780F9BE78C3E1ACC43C4904143829',X'36B1A9155D2AD56D1D45EBAFD75D26EF5250449F5503A323D37D5FD15FB78EEF',X'19EFD543BA9F2704D1C0A7F63721357F370921325CF1667FC20D3762CD7580AC');
INSERT INTO "event" VALUES(24,'residency/r-2',2,'a854499186fa40d1af8cfa91e1b0e247','load.completed',1,1795987953264885940,1795987953265839577,0,'{"residency":"r-2","served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"kind":"raw","device":"cpu","bytes":1000,"tensors":3,"shards":1,"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","dtypes":["BF16"],"fingerprints":[],"seconds":{"read":0.5},"strays":[],"misaligned":0,"pinned":false,"processed_digest":null,"lineage":null,"source":null,"config":{},"by":null,"unproven_why":""}',X'D7D56B24E592C50C3848BE0EC1981114',X'A41C18E88316C3D82D5E09177E98CFCF65102F2F6EDA6F93099971F8BDD8750E',X'7AEFEE641CE0DD61B22619CBB88FBF28464692148BCE93A346C3184F56193305');
INSERT INTO "event" VALUES(25,'attach/a-5',1,'6b05021df34c4250a2223bffda10adee','attach.decided',1,1795987953264887914,1795987953265839577,0,NULL,NULL,X'BB25FDBBAC009895705BA953E4D065EB7F1B6131EE9715835813E112CC0ABA71',X'512FD1CEC1E574220D0250968BB83715EE8813BE871D869071B8D1BEA57D26EC');
INSERT INTO "event" VALUES(26,'attach/a-5',2,'8dc308587a4a4aea9c8a9e69826af2a9','lease.granted',1,1795987953264890078,1795987953265839577,0,NULL,NULL,X'6827767C3EC661D3B084568DBCBBD83146ED04FAC95559191C46BC78C99C81C1',X'13FB1D69134EE13244BCDC4CA6AC2B6DB78CE14A93CFB15E5E6CC07D5D0ABF9B');
INSERT INTO "event" VALUES(27,'attach/a-5',3,'48bbb1c12e464ed49d9fb3d0f715794b','map.completed',1,1795987953264891756,1795987953265839577,0,'{"attach":"a-5","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'00DAB186C698E81733C0080E5694582C',X'C6750A1FEE3BA7E268A966FD6B3B458DE1A2906BF8C61421778DB06CEC637262',X'9BC4BECD83A36D619F30263922639BE879839A4D546F5B8AD7D18682631460D0');
INSERT INTO "event" VALUES(28,'attach/a-5',4,'60350062f64c4977a09af31bc8044926','lease.ended',1,1795987953264893578,1795987953265839577,0,'{"attach":"a-5","how":"closed","checked":""}',X'B83C3320F59E5FC27B38B02890326FDA',X'2E89274928F84D89C7FC5D89A72C296797D9B6DB523165579797076AE8C9F942',X'A78CAEDDF6E4D4A724904BDC04CB7917EC12BC93A4160F5E1F5B7419D2ECE0D7');
INSERT INTO "event" VALUES(29,'residency/r-2',3,'01ffe80760fb47e09a1b9f897a17b047','release.requested',1,1795987953264896271,1795987953265839577,0,'{"residency":"r-2","uid":0,"why":"asked","force":false,"leases":[],"when_free":false}',X'3E3EEF32919C3E5C3C060C0665A82B8A',X'E93DE876EB0732B832A008B379CF6DFC8C3CDE3836602FB0702A6ECCA8425F24',X'3AC5BD2ED37CF4111E73B66F6D4FC40104B97CBB4C30CB8BBCE3154B42D608D7');
INSERT INTO "event" VALUES(30,'residency/r-2',4,'e6bd936e70734848811d301f9d4295a0','release.completed',1,1795987953264898257,1795987953265839577,0,'{"residency":"r-2","bytes":1000,"checked":""}',X'5389C01093080E92D79DDAC44A032717',X'9523CCB828A4A0EABFC57841C92BFABF0101C193E62490E0CC72402F9C4ED641',X'479A52812D6018A292121641E1BCDA6E7D7DDF35A446C000AA98A59337B825AF');
INSERT INTO "event" VALUES(31,'ledger',1,'cdfd76a77dc043508b3d1e3d24c44f11','peer.refused',1,1795987953264900259,1795987953265839577,0,NULL,NULL,X'C8C0D5C943A4BBB5E0E4FD1D68716F746888A45ED6B1BF9F64DD5BDEF793ED60',X'6FADB4F6BB17602354E1AFBC4A7FF40B9EA0BA99D0A8EFF81B9C1243D1CD5D05');
INSERT INTO "event" VALUES(32,'ledger',2,'744b9a5f44db41b8abc77014f079124e','segment.closed',1,1795987953284018326,1795987953284552263,0,'{"size":31,"root":"d5810a7db9fc10401279605595a2122e77f83e5644d4af59cab627f4ba869147","uid":0}',X'5963DA7F77FDF00635340DBE55C9279D',X'CC20FE7101ED9891384BB7D80773D1AE0F6E5877D5F0BF1453EDB9150EC67D86',X'E7E099ED61201081808F6C4D13367422A7E47A3B39E3D5D5C4CF498E7B31D4E4');
INSERT INTO "event" VALUES(33,'ledger',3,'0d29edeae18e4f309c05b7ef55385e14','segment.opened',1,1795987953284920982,1795987953285146325,0,'{"state":{"attach/a-3":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":32,"root":"5b57dd3a5092a9d8e83adf560f06e3d1573f14942fe5d099136c0512b2335b16","frontier":["5b57dd3a5092a9d8e83adf560f06e3d1573f14942fe5d099136c0512b2335b16"],"chain":"e7e099ed61201081808f6c4d13367422a7e47a3b39e3d5d5c4cf498e7b31d4e4","origin":"3319aea128730e174af9bd925ad190b7"}',X'3F124934FE9EA17F7EA11A3FEAAE404C',X'8A60AE3A0BE58EF145B66969B2D9D4B4B69F42D90873DEEEFBF05D1BA7D03F23',X'5E2EEBFBD524DF2F24E1DE36EB0DAA5FDF41ED8E90A537C63D3941164531A0D1');
INSERT INTO "event" VALUES(34,'attach/a-1',5,'b9119a9f22b4460eb9bc4f679fde136b','verify.passed',1,1795987953296590523,1795987953297091052,0,'{"subject":"hit","attach":"a-1","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seconds":0.1,"by":"digests"}',X'06FD958E788D4B518A4BAEE8D2334DE9',X'9E43F037044C23CAEFA463F4EC9CB3EF39B6CAE9059C6FA37CECCBBAA2AFAD63',X'3FCDE4C7F0A20312870FB703DB101F37EC594E7C6641946DCA8EEBCCAC16CF43');
INSERT INTO "event" VALUES(35,'attach/a-6',1,'859e3b41ae314d51ae1bb80fea3705a1','attach.decided',1,1795987953296593790,1795987953297091052,0,'{"attach":"a-6","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'2EFB8F04ECB4E01537A64B000C65C4A0',X'307EB36E294F10F05E43ACDD05F49E5DFE1C0823C23F7960E51DD089760999DD',X'CCD962C3BAB0F228F72C087779EA73A28B837F9E13317B171C0724C2C938D8C5');
INSERT INTO "event" VALUES(36,'attach/a-6',2,'993da7229b71489ea1d45e25874356a9','lease.granted',1,1795987953296595945,1795987953297091052,0,'{"attach":"a-6","residency":"r-1"}',X'D1EA9EEB82C60A62E988B33672B03830',X'F2139A82E179B9A84CD1A5107113DDDFE3586D3BF25A99C7870DA095FD079E23',X'D88C73C1E4E1A231FD6D5A5AB8D3446B8FAFF9B7E967A496499FB20505169073');
INSERT INTO "event" VALUES(37,'attach/a-6',3,'36ced5ffa0f44144866b9415058e463d','map.completed',1,1795987953296597865,1795987953297091052,0,'{"attach":"a-6","mode":"zero_copy","tensors":3,"bytes":1000,"copied_tensors":0,"copied_bytes":0,"ms":0.5}',X'1D9FC3DFDB9AB4885AA4E3BD5D433097',X'ED45E68E390204C100FC3D12D103712B90725FADDA3BD49DA15E7FB3D5FE0EE0',X'86719A3F5B543B5EA483DDCF06147068604FB4C346FC9B89ACF17BD3D1C00F45');
INSERT INTO "event" VALUES(38,'ledger',4,'8aa352f159af4fe180415d2448980ca6','segment.closed',1,1795987953306659833,1795987953306735281,0,'{"size":37,"root":"f333379d8d4844d65a4ea7527d91afdd63ce692e85b2bbe1ce6271dcb0b450f7","uid":0}',X'20186B1F8E7B176DE28E2CDACDF6C36A',X'05BBBC364CEFBBD4B09AB2A8ECFDA3FA9900618D75314C64EEB602CFE3D3D02D',X'F7D766E41C017FB4B8EA3B170C7BDDF445641833CB95D713EF5509516B238FF5');
INSERT INTO "event" VALUES(39,'ledger',5,'80af6a641fb643a7bbeeef84a1242afc','segment.opened',1,1795987953306946877,1795987953306993214,0,'{"state":{"attach/a-3":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"attach/a-6":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":38,"root":"e2070dde6f9d09ce36b15606702c4695fa0f4b82622e5c61d20f6c2dddba6622","frontier":["5b57dd3a5092a9d8e83adf560f06e3d1573f14942fe5d099136c0512b2335b16","026672726f0a6aabf9bd1c84ad6d592da5bb58ca4750bb35fc3e2a03fcbfd514","3fec7647458af3f62ed1351914624ca28895fe1c6bc832baa0cbae19ad7d9a31"],"chain":"f7d766e41c017fb4b8ea3b170c7bddf445641833cb95d713ef5509516b238ff5","origin":"3319aea128730e174af9bd925ad190b7"}',X'7B9FADFE51AA7283BE14E0CD1FFA5F59',X'EF02179D08135F683E5219F957867BCE9067DE917B94AE5F575B9237DE338E7C',X'465B53B1C25FE6B3565A927D0D84E536F095A4D74E63449BBA4A0AAAC230B5F3');
INSERT INTO "event" VALUES(40,'attach/a-3',4,'9bca01c44ac843fca79ad72c98e8b283','lease.ended',1,1795987953312032203,1795987953312292225,0,'{"attach":"a-3","how":"closed","checked":""}',X'EB1FE9F660E0B051762584C0EDE351B6',X'3525C1527FA50FF8CCB4C493D1B823F3C73E9EA5E93D208FC57C8F1646AC3F15',X'0031E17EE289CBB4C2F050DFB188CD2AD531D7B13DEA255D69746708D8304CC6');
INSERT INTO "event" VALUES(41,'attach/a-7',1,'88203e67050b419db49cf99237f4859b','attach.decided',1,1795987953312035277,1795987953312292225,0,'{"attach":"a-7","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'12EC31B7B8E48C56DADF71E0A2368B97',X'D60961515D043F354DFF78EBDE8B3B063FA562285436B08FA0358CFA47EA8BD8',X'DE283FDA240874C494E51AA043EFAD7D1539F9593BE0ACDB083A1D834D1CC622');
INSERT INTO "event" VALUES(42,'attach/a-7',2,'0eb54b9a12084643ae831e020b782597','lease.granted',1,1795987953312038037,1795987953312292225,0,'{"attach":"a-7","residency":"r-1"}',X'BE7C0C23A66968AF299D373715CBE580',X'E51A5B9DCF49C8E47806DC8DF831AAD1FF2A833CB03E64B4CF6D21790DB7AF69',X'9D35D50A3CE0DF5D91429F33F663868DE018627990B73DCF858A41642C9CB2F1');
INSERT INTO "event" VALUES(43,'ledger',6,'af63369dd4bb414c922ccd0f76d3a382','payload.redacted',1,1795987953333109676,1795987953353559124,0,'{"target_seq":25,"why":"a path with a name","uid":0,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-5","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"[redacted]","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-2","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"},"body_schema":1}',X'F60F219AEE43AF932A36C5D8F421418B',X'56713973A960F8724EF275D4E528A42E663552D565465AEF5175312907B9C68D',X'BFD7C55B18C2E66C019EBC787045020EFD0C90C17F9CC9F1EDD0A882BCFAF742');
INSERT INTO "event" VALUES(44,'ledger',7,'f90c66bf2f064083acf706eb3aef4185','payload.redacted',1,1795987953333112523,1795987953353559124,0,'{"target_seq":26,"why":"a path with a name","uid":0,"body":{"attach":"a-5","residency":"r-2"},"body_schema":1}',X'3E15327D5F2C0F3C0DEF81F83638F3D2',X'3B1F83865DCA7B97AC60CBD499C86ABDA30A483F47E13EA88EA0DA9DCEC5C553',X'559F349E07AD738944DD56511122287714DA3E7ED55EB30B8DA044F643C0D0FD');
INSERT INTO "event" VALUES(45,'ledger',8,'4597206d65804f8aae21b91bd4f03ad9','payload.redacted',1,1795987953333114354,1795987953353559124,0,'{"target_seq":31,"why":"a path with a name","uid":0,"body":{"peer":{"pid":5,"uid":1000},"why":"[redacted]"},"body_schema":1}',X'FE90180F8ECC6A51919506E3C1F36189',X'CBAF552670518BBFA730B0232F784B2898729278D0B8ABF5520A680EC6287D97',X'E86E5991289AF4758E5E45A9F6C27405343FFDD9A7BD7375295FCEE2368DBB76');
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
INSERT INTO "fingerprint" VALUES('1e1e30c3fea228fa4cce06526ce88304',2,'content','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795987953265839577,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
INSERT INTO "fingerprint" VALUES('3f10fec20294af230a35eb846e15693b',3,'content','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee','/models/base','92dc691468bb800f4aebd29ffd0fbf429b09564131316b2d76f3cea9ed3f7a1d','/models/base','d-1',1795987953265839577,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":9,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
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
INSERT INTO "instance" VALUES('d-1',1,'running',1795987953264818764,NULL,10,0,'1','boot','/run/wcache');
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_ns','1795987953259642751');
INSERT INTO "meta" VALUES('origin','3319aea128730e174af9bd925ad190b7');
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
INSERT INTO "residency" VALUES('r-1',8,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','resident',1795987953264845456,NULL,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO "residency" VALUES('r-2',24,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','released',1795987953264885940,1795987953264898257,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
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
INSERT INTO "stream" VALUES('attach/a-1',5,'{"state":"ended","outcome":"hit","arrived":true,"proof":"proved"}');
INSERT INTO "stream" VALUES('attach/a-2',5,'{"state":"ended","outcome":"hit","arrived":true,"proof":"refuted"}');
INSERT INTO "stream" VALUES('attach/a-3',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-4',2,'{"state":"fell_back","outcome":"fallback","arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('attach/a-5',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-6',3,'{"state":"mapped","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-7',2,'{"state":"granted","outcome":"hit","arrived":false,"proof":"unproven"}');
INSERT INTO "stream" VALUES('daemon/d-1',1,'');
INSERT INTO "stream" VALUES('fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'');
INSERT INTO "stream" VALUES('fingerprint/3f10fec20294af230a35eb846e15693b',1,'');
INSERT INTO "stream" VALUES('ledger',8,'');
INSERT INTO "stream" VALUES('residency/r-1',2,'resident');
INSERT INTO "stream" VALUES('residency/r-2',4,'released');
INSERT INTO "stream" VALUES('trust/g-1',1,'active');
INSERT INTO "stream" VALUES('trust/g-2',2,'revoked');
CREATE TABLE trust (
  grant TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  scope TEXT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  revoked_seq INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "trust" VALUES('g-1',4,'checkpoint','active','{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',NULL);
INSERT INTO "trust" VALUES('g-2',5,'checkpoint','revoked','{"grant":"g-2","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',6);
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
